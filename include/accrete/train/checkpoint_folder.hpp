#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/io/folder_lock.hpp"
#include "accrete/io/leftovers.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/writable_folder.hpp"
#include "accrete/train/checkpoint_file.hpp"

namespace accrete::inline v0::train {

/// What a run does about checkpoints that are there when it begins.
enum class resume {
  automatic,  ///< goes on from the newest that is whole; begins where there is none
  required,   ///< goes on, or throws config_error
  fresh       ///< removes them and begins
};

/// How a run is kept on disk while it goes.
struct checkpoint_options {
  std::filesystem::path folder{};  ///< of this run alone; empty: no checkpoints
  index_t every_steps = 0;         ///< updates between two; 0: by time alone
  double every_minutes = 10;       ///< of wall time between two; 0: by updates alone
  int keep_last = 2;               ///< older ones go when a new one is safe on disk
  bool keep_best = true;   ///< also the one of the lowest validation CE at full depth, as best.safetensors
  bool keep_final = true;  ///< one after the last update, before it is evaluated
  bool damaged_is_none = false;  ///< begins anew where no checkpoint is whole, instead of an error
  resume how = resume::automatic;
  std::vector<std::string> allow{};  ///< facts of the run that may have changed, by name

  void check() const {
    auto const refuse = [](char const* name, std::string const& got, char const* expected) {
      throw config_error(std::string("checkpoints.") + name, got, expected);
    };
    if (every_steps < 0) refuse("every_steps", std::to_string(every_steps), "0 or more");
    if (!(every_minutes >= 0)) refuse("every_minutes", std::to_string(every_minutes), "0 or more");
    if (keep_last < 1) refuse("keep_last", std::to_string(keep_last), "1 or more");
  }
};

/// The checkpoints of one run: step-00000100.safetensors and so on, and best.safetensors. Locked while this
/// lives; what a killed process left half-written is removed.
class checkpoint_folder {
 public:
  /// Throws io_error for a folder that cannot be written or that another process has.
  explicit checkpoint_folder(checkpoint_options o)
      : options_((o.check(), std::move(o))), lock_(made(options_.folder)) {
    io::remove_leftovers(options_.folder);
    if (options_.how == resume::fresh) remove_all();
  }

  [[nodiscard]] checkpoint_options const& options() const { return options_; }
  [[nodiscard]] std::string where() const { return "checkpoints in " + io::path_text(options_.folder); }
  [[nodiscard]] bool is_locked() const { return lock_.held(); }

  /// The newest checkpoint that is whole. One that is not is named in a note, and set aside under the name
  /// NAME.damaged. Throws config_error where one is required and none there, io_error where none is whole.
  template <class Note>
  std::optional<checkpoint_file> newest(Note&& note) {
    auto candidates = step_files();
    std::reverse(candidates.begin(), candidates.end());
    std::error_code ignored;
    if (std::filesystem::exists(best_path(), ignored)) candidates.push_back({0, best_path()});
    for (auto const& [step, path] : candidates) {
      try {
        return std::make_optional<checkpoint_file>(path);
      } catch (io_error const& e) {
        note(std::string(e.what()) + "; looking for an older one");
        auto aside = path;
        std::filesystem::rename(path, aside += ".damaged", ignored);
      }
    }
    if (!candidates.empty() && !options_.damaged_is_none)
      throw io_error(where(), std::to_string(candidates.size()) + " of which none is whole",
                     "one to go on from", "begin anew with resume fresh, or in another folder");
    if (options_.how == resume::required)
      throw config_error(where(), "none", "one to go on from", "is it the folder of the run that was begun?");
    return std::nullopt;
  }

  /// Throws io_error unless the disk has room for a checkpoint of so many bytes; one that does not say is
  /// believed to have it.
  void require_room(std::uintmax_t bytes) const {
    std::error_code unknown;
    auto const room = std::filesystem::space(options_.folder, unknown);
    if (!unknown && room.available < bytes)
      throw io_error(where(), io::bytes_text(room.available) + " free",
                     io::bytes_text(bytes) + " for a checkpoint of the grown student",
                     "make room, or give another folder");
  }

  [[nodiscard]] std::filesystem::path path_of(index_t step) const {
    auto digits = std::to_string(step);
    if (digits.size() < num_digits) digits.insert(0, num_digits - digits.size(), '0');
    return options_.folder / (std::string(prefix) + digits + std::string(suffix));
  }
  [[nodiscard]] std::filesystem::path best_path() const { return options_.folder / "best.safetensors"; }

  /// Whether the one after update `step` is due.
  [[nodiscard]] bool is_due(index_t step) const {
    if (options_.every_steps > 0 && step % options_.every_steps == 0) return true;
    return options_.every_minutes > 0 &&
           std::chrono::duration<double>(clock::now() - last_).count() >= 60 * options_.every_minutes;
  }
  /// The next one by time is due a whole interval from now.
  void start_interval() { last_ = clock::now(); }

  /// To be called when the one of `step` is safe on disk: older ones go.
  void prune(index_t step) {
    auto files = step_files();
    std::erase_if(files, [&](auto const& f) { return f.first > step; });
    std::error_code ignored;
    for (std::size_t i = 0; i + std::size_t(options_.keep_last) < files.size(); ++i)
      std::filesystem::remove(files[i].second, ignored);
  }

  /// By step, from the oldest on.
  [[nodiscard]] std::vector<std::pair<index_t, std::filesystem::path>> step_files() const {
    std::vector<std::pair<index_t, std::filesystem::path>> all;
    for (auto const& entry : std::filesystem::directory_iterator(options_.folder))
      if (index_t const step = step_of(entry.path().filename().string()); step >= 0)
        all.emplace_back(step, entry.path());
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::string_view prefix = "step-", suffix = ".safetensors";
  static constexpr std::size_t num_digits = 8;

  static std::filesystem::path const& made(std::filesystem::path const& folder) {
    io::require_writable_folder(folder);
    return folder;
  }
  /// -1 for a name that is none of a checkpoint.
  static index_t step_of(std::string_view name) {
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) return -1;
    name = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    if (name.size() < num_digits || name.size() > 18 ||
        name.find_first_not_of("0123456789") != std::string_view::npos)
      return -1;
    index_t step = 0;
    for (char c : name) step = 10 * step + (c - '0');
    return step;
  }
  void remove_all() const {
    std::error_code ignored;
    for (auto const& [step, path] : step_files()) std::filesystem::remove(path, ignored);
    std::filesystem::remove(best_path(), ignored);
  }

  checkpoint_options options_;
  io::folder_lock lock_;
  clock::time_point last_ = clock::now();
};

}  // namespace accrete::inline v0::train
