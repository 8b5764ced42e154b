#pragma once
// Everything a program on the CPU needs, from the ground up: an ordered list of includes and nothing else. A
// program that needs one room includes that room's headers; fwd.hpp has the names alone. Left out, to be
// included by name: the reference backend, the study's grid and tables, interop with Eigen and xtensor, and the
// handling of Ctrl-C.

#include "accrete/fwd.hpp"

// core
#include "accrete/core/config.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/rng.hpp"
#include "accrete/core/types.hpp"
#include "accrete/core/view.hpp"

// tensor
#include "accrete/tensor/arena.hpp"
#include "accrete/tensor/tensor.hpp"
#include "accrete/tensor/tensor_like.hpp"

// backend, cpu
#include "accrete/backend/backend.hpp"
#include "accrete/cpu/backend.hpp"

// io
#include "accrete/io/model_config.hpp"
#include "accrete/io/safetensors.hpp"
#include "accrete/io/weights.hpp"

// data
#include "accrete/data/corpus.hpp"
#include "accrete/data/document_order.hpp"
#include "accrete/data/gguf_tokenizer.hpp"
#include "accrete/data/hf_tokenizer.hpp"
#include "accrete/data/open.hpp"
#include "accrete/data/padded.hpp"
#include "accrete/data/ragged_batch.hpp"
#include "accrete/data/shard.hpp"
#include "accrete/data/split_validation.hpp"
#include "accrete/data/tokenizer.hpp"

// wiring, placement, growth
#include "accrete/growth/curriculum.hpp"
#include "accrete/growth/freeze.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/growth/schedule.hpp"
#include "accrete/placement/boundary.hpp"
#include "accrete/placement/deepnorm.hpp"
#include "accrete/placement/hybrid.hpp"
#include "accrete/placement/mix.hpp"
#include "accrete/placement/norm_placement.hpp"
#include "accrete/placement/olmo2.hpp"
#include "accrete/placement/peri.hpp"
#include "accrete/placement/post.hpp"
#include "accrete/placement/pre.hpp"
#include "accrete/placement/residual.hpp"
#include "accrete/wiring/expression.hpp"
#include "accrete/wiring/program.hpp"
#include "accrete/wiring/text.hpp"

// model, distill, train
#include "accrete/distill/teacher_cache.hpp"
#include "accrete/distill/teacher_states.hpp"
#include "accrete/distill/vocabulary_head.hpp"
#include "accrete/model/generate.hpp"
#include "accrete/model/layer.hpp"
#include "accrete/model/load_teacher.hpp"
#include "accrete/model/student.hpp"
#include "accrete/model/teacher.hpp"
#include "accrete/train/checkpoint_folder.hpp"
#include "accrete/train/distill.hpp"
#include "accrete/train/learning_rate.hpp"
#include "accrete/train/load_student.hpp"
#include "accrete/train/optimizer.hpp"
#include "accrete/train/perplexity.hpp"
#include "accrete/train/phases.hpp"
#include "accrete/train/prepared_text.hpp"
#include "accrete/train/progress.hpp"
#include "accrete/train/recipe.hpp"
#include "accrete/train/records.hpp"
#include "accrete/train/run_data.hpp"
#include "accrete/train/run_recorder.hpp"
#include "accrete/train/run_state.hpp"
#include "accrete/train/trainer.hpp"

// study: the grid; its tables and reports are opt-in
#include "accrete/study/grid.hpp"

// the compiled part, in a program that links it
#include "accrete/compiled.hpp"
