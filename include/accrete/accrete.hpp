#pragma once
// Everything for the CPU, from the ground up: an ordered list of includes and nothing else. A program that needs
// only one room includes that room's headers; fwd.hpp has the names alone.

// core, tensor
#include "accrete/core/config.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/rng.hpp"
#include "accrete/core/types.hpp"
#include "accrete/core/view.hpp"
#include "accrete/fwd.hpp"
#include "accrete/tensor/arena.hpp"
#include "accrete/tensor/tensor.hpp"
#include "accrete/tensor/tensor_like.hpp"

// backends
#include "accrete/backend/backend.hpp"
#include "accrete/cpu/backend.hpp"
#include "accrete/reference/backend.hpp"

// equations and the policies written in them
#include "accrete/growth/curriculum.hpp"
#include "accrete/growth/freeze.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/growth/schedule.hpp"
#include "accrete/placement/deepnorm.hpp"
#include "accrete/placement/hybrid.hpp"
#include "accrete/placement/mix.hpp"
#include "accrete/placement/norm_placement.hpp"
#include "accrete/placement/olmo2.hpp"
#include "accrete/placement/peri.hpp"
#include "accrete/placement/post.hpp"
#include "accrete/placement/pre.hpp"
#include "accrete/placement/residual.hpp"
#include "accrete/wiring/execute.hpp"
#include "accrete/wiring/text.hpp"

// files and text
#include "accrete/data/corpus.hpp"
#include "accrete/data/document_order.hpp"
#include "accrete/data/open.hpp"
#include "accrete/data/ragged_batch.hpp"
#include "accrete/data/tokenizer.hpp"
#include "accrete/io/weights.hpp"

// models, distillation, training
#include "accrete/distill/teacher_cache.hpp"
#include "accrete/distill/teacher_states.hpp"
#include "accrete/distill/vocabulary_head.hpp"
#include "accrete/model/generate.hpp"
#include "accrete/model/load_teacher.hpp"
#include "accrete/model/student.hpp"
#include "accrete/model/teacher.hpp"
#include "accrete/study/grid.hpp"
#include "accrete/train/distill.hpp"
#include "accrete/train/perplexity.hpp"
#include "accrete/train/recipe.hpp"
#include "accrete/train/trainer.hpp"
