#pragma once
// Every operation of the CPU backend, with the providers of products.
#include "accrete/cpu/arithmetic.hpp"
#include "accrete/cpu/attention.hpp"
#include "accrete/cpu/attention_backward.hpp"
#include "accrete/cpu/gemm_eigen.hpp"
#include "accrete/cpu/gemm_onednn.hpp"
#include "accrete/cpu/linear.hpp"
#include "accrete/cpu/logits.hpp"
#include "accrete/cpu/losses.hpp"
#include "accrete/cpu/norms.hpp"
#include "accrete/cpu/optimizer.hpp"
#include "accrete/cpu/positions.hpp"
#include "accrete/cpu/swiglu.hpp"
