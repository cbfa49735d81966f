// SPDX-License-Identifier: Apache-2.0
#include "sim/model/architecture.hpp"

#include "sim/base/errors.hpp"
#include "sim/model/language_model_checks.hpp"
#include "sim/model/language_models.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace athanor {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;  // 4 PiB in fp32

/// Checks a shape and returns its number of elements.
std::int64_t checked_elements(const ValuePath& path, const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    check_integer(path.item(i), shape[i], 1, kMaxElements);
    if (elements > kMaxElements / shape[i]) {
      path.reject("the tensor is too large", "A model holds at most 2^50 elements.");
    }
    elements *= shape[i];
  }
  return elements;
}

void check_unit(const Unit& unit, const ValuePath& path, std::int64_t& total) {
  check_name(path.key("name"), unit.name);
  check_name(path.key("class"), unit.unit_class);
  check_number(path.key("forward_flops_per_token"), unit.forward_flops_per_token, 0);
  check_number(path.key("forward_flops_per_token_per_context"),
               unit.forward_flops_per_token_per_context, 0);
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const ValuePath parameter = path.key("parameters").item(i);
    check_name(parameter.key("name"), unit.parameters[i].name);
    total += checked_elements(parameter.key("shape"), unit.parameters[i].shape);
    if (total > kMaxElements) {
      parameter.reject("the model is too large", "A model holds at most 2^50 elements.");
    }
  }
}

void check_unique_names(const std::vector<Unit>& units, const ValuePath& path) {
  std::set<std::string> unit_names;
  std::set<std::string> parameter_names;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const ValuePath unit = path.item(u);
    if (!unit_names.insert(units[u].name).second) {
      unit.key("name").reject("a second unit is called '" + units[u].name + "'",
                              "Give every unit its own name.");
    }
    for (std::size_t p = 0; p < units[u].parameters.size(); ++p) {
      const std::string& name = units[u].parameters[p].name;
      if (!parameter_names.insert(name).second) {
        unit.key("parameters")
            .item(p)
            .key("name")
            .reject("a second parameter is called '" + name + "'",
                    "Give every parameter its own name.");
      }
    }
  }
}

void check_borrows(const std::vector<Unit>& units, std::size_t borrower, const ValuePath& path) {
  const std::vector<Borrow>& borrows = units[borrower].borrows;
  for (std::size_t i = 0; i < borrows.size(); ++i) {
    const ValuePath borrow = path.key("borrows").item(i);
    check_integer(borrow.key("unit"), borrows[i].unit, 0,
                  static_cast<std::int64_t>(units.size()) - 1);
    const auto owner = static_cast<std::size_t>(borrows[i].unit);
    if (owner == borrower) {
      borrow.key("unit").reject("a unit cannot borrow from itself", "Name another unit.");
    }
    const bool owned = std::any_of(
        units[owner].parameters.begin(), units[owner].parameters.end(),
        [&](const Parameter& parameter) { return parameter.name == borrows[i].parameter; });
    if (!owned) {
      borrow.key("parameter")
          .reject(fmt::format("unit '{}' has no parameter '{}'", units[owner].name,
                              borrows[i].parameter),
                  "Name one of its parameters.");
    }
  }
}

std::vector<std::vector<std::int64_t>> shapes_of(const Unit& unit) {
  std::vector<std::vector<std::int64_t>> shapes;
  for (const Parameter& parameter : unit.parameters) {
    shapes.push_back(parameter.shape);
  }
  return shapes;
}

void check_classes(const std::vector<Unit>& units, const ValuePath& path) {
  std::map<std::string, std::size_t> first_of_class;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const std::size_t first = first_of_class.try_emplace(units[u].unit_class, u).first->second;
    if (shapes_of(units[u]) != shapes_of(units[first])) {
      path.item(u).key("class").reject(
          fmt::format("'{}' has other shapes than '{}', which is of class '{}' too", units[u].name,
                      units[first].name, units[u].unit_class),
          "Units of one class have equal shapes.");
    }
  }
}

bool same_structure(const Unit& left, const Unit& right) {
  const auto same_parameter = [](const Parameter& a, const Parameter& b) {
    return a.name == b.name && a.shape == b.shape;
  };
  const auto same_borrow = [](const Borrow& a, const Borrow& b) {
    return a.unit == b.unit && a.parameter == b.parameter;
  };
  return left.name == right.name && left.unit_class == right.unit_class &&
         std::equal(left.parameters.begin(), left.parameters.end(), right.parameters.begin(),
                    right.parameters.end(), same_parameter) &&
         std::equal(left.borrows.begin(), left.borrows.end(), right.borrows.begin(),
                    right.borrows.end(), same_borrow);
}

/// Throws InputError unless the units are those that the hyperparameters describe.
void check_language_model(const Architecture& architecture, const ValuePath& path) {
  const LanguageModelConfig& config = *architecture.language_model;
  check_config(config,
               [&path](std::string_view field) { return path.key("language_model").key(field); });
  const Architecture expected =
      make_architecture(architecture.name, config, blocks_of(architecture));
  const bool same =
      std::equal(expected.units.begin(), expected.units.end(), architecture.units.begin(),
                 architecture.units.end(), same_structure);
  if (!same) {
    path.key("units").reject("the units are not those of the language_model beside them",
                             "Make the file again from the model's config.json.");
  }
}

void check_traced(const Architecture& architecture, const ValuePath& path) {
  if (architecture.language_model) {
    path.key("traced").reject("a model is traced or has a language_model, not both",
                              "Make the file again.");
  }
  constexpr std::int64_t kMax = std::int64_t{1} << 30;
  check_name(path.key("traced").key("model_type"), architecture.traced->model_type);
  check_integer(path.key("traced").key("vocab_size"), architecture.traced->vocab_size, 1, kMax);
  check_integer(path.key("traced").key("sequence_length"), architecture.traced->sequence_length, 1,
                kMax);
}

void check_image_classifier(const Architecture& architecture, const ValuePath& path) {
  const ImageClassifierConfig& c = *architecture.image_classifier;
  const ValuePath own = path.key("image_classifier");
  if (architecture.language_model || architecture.traced) {
    own.reject("a model classifies images or predicts tokens, not both", "Make the file again.");
  }
  constexpr std::int64_t kMaxSide = 1 << 16;
  constexpr std::int64_t kMaxDim = 1 << 20;
  check_name(own.key("model_type"), c.model_type);
  check_integer(own.key("hidden_size"), c.hidden_size, 1, kMaxDim);
  check_integer(own.key("num_heads"), c.num_heads, 1, c.hidden_size);
  check_integer(own.key("intermediate_size"), c.intermediate_size, 1, kMaxDim);
  check_integer(own.key("image_size"), c.image_size, 1, kMaxSide);
  check_integer(own.key("patch_size"), c.patch_size, 1, c.image_size);
  check_integer(own.key("num_channels"), c.num_channels, 1, kMaxSide);
  check_integer(own.key("num_labels"), c.num_labels, 2, kMaxDim);
  check_number(own.key("norm_epsilon"), c.norm_epsilon, 0, 1);
  if (c.num_layers + 2 != static_cast<std::int64_t>(architecture.units.size())) {
    own.key("num_layers")
        .reject(fmt::format("{} layers and {} units", c.num_layers, architecture.units.size()),
                "Make the file again from the model's config.json.");
  }
  if (c.hidden_size % c.num_heads != 0) {
    own.key("num_heads")
        .reject(
            fmt::format("{} heads do not divide the hidden size {}", c.num_heads, c.hidden_size),
            "Make the file again from the model's config.json.");
  }
}

/// Mean number of positions that a token attends to, times two (a token at the end of a full
/// context sees all of it, the first one itself alone).
double effective_context(double sequence, double window) {
  if (window <= 0 || sequence <= window) {
    return sequence;
  }
  return 2 * window - window * window / sequence;
}

}  // namespace

std::int64_t Parameter::num_elements() const noexcept {
  std::int64_t elements = 1;
  for (const std::int64_t dim : shape) {
    elements *= dim;
  }
  return elements;
}

std::int64_t Unit::num_elements() const noexcept {
  std::int64_t elements = 0;
  for (const Parameter& parameter : parameters) {
    elements += parameter.num_elements();
  }
  return elements;
}

std::optional<std::int64_t> Architecture::vocab_size() const noexcept {
  if (language_model) return language_model->vocab_size;
  return traced ? std::optional(traced->vocab_size) : std::nullopt;
}

std::int64_t Architecture::num_parameters() const noexcept {
  std::int64_t elements = 0;
  for (const Unit& unit : units) {
    elements += unit.num_elements();
  }
  return elements;
}

bool Architecture::lends(std::size_t unit) const noexcept {
  return std::ranges::any_of(units, [&](const Unit& other) {
    return std::ranges::find(other.borrows, static_cast<std::int32_t>(unit), &Borrow::unit) !=
           other.borrows.end();
  });
}

double Architecture::model_flops_per_token(std::int64_t sequence) const noexcept {
  constexpr double kForwardAndBackward = 3;
  double flops = 0;
  std::int64_t block = 0;
  for (const Unit& unit : units) {
    flops += unit.forward_flops_per_token;
    if (unit.forward_flops_per_token_per_context == 0) continue;
    const std::int64_t window = language_model ? window_of(*language_model, block++) : 0;
    const double context =
        effective_context(static_cast<double>(sequence), static_cast<double>(window));
    flops += unit.forward_flops_per_token_per_context * context;
  }
  return kForwardAndBackward * flops;
}

void check_architecture(const Architecture& architecture, const ValuePath& path) {
  constexpr std::size_t kMaxUnits = 100'000;
  check_name(path.key("name"), architecture.name);
  const ValuePath units = path.key("units");
  if (architecture.units.empty() || architecture.units.size() > kMaxUnits) {
    units.reject(fmt::format("{} units cannot be used", architecture.units.size()),
                 fmt::format("A model has 1 to {} units.", kMaxUnits));
  }
  std::int64_t total = 0;
  for (std::size_t u = 0; u < architecture.units.size(); ++u) {
    check_unit(architecture.units[u], units.item(u), total);
    check_borrows(architecture.units, u, units.item(u));
  }
  check_unique_names(architecture.units, units);
  check_classes(architecture.units, units);
  if (architecture.language_model) {
    check_language_model(architecture, path);
  }
  if (architecture.traced) check_traced(architecture, path);
  if (architecture.image_classifier) check_image_classifier(architecture, path);
}

void Architecture::validate(const std::string& where) const {
  check_architecture(*this, ValuePath(where));
}

bool KnownSizes::can_be_traced() const noexcept {
  return !has_experts &&
         (class_name.ends_with("ForCausalLM") || class_name.ends_with("LMHeadModel"));
}

namespace {

std::string way_out_of(const KnownSizes& known) {
  if (known.can_be_traced()) {
    return "Trace it with `athanor trace`, and give the folder that it writes.";
  }
  if (known.has_experts) {
    std::vector<std::string_view> mixtures;
    std::ranges::copy_if(kModelTypes, std::back_inserter(mixtures), &has_experts);
    return fmt::format("It can be shown. Mixtures of experts to train: {}.",
                       fmt::join(mixtures, ", "));
  }
  const bool is_bare_encoder = known.class_name == "ViTModel" || known.class_name == "Dinov2Model";
  if (!is_bare_encoder) return "It can be shown, not trained.";
  return fmt::format(
      "Give it a classifier: python3 -c \"from transformers import AutoModelForImageClassification "
      "as M; M.from_pretrained('FOLDER', num_labels=N).save_pretrained('NEW')\", and copy "
      "preprocessor_config.json.");
}

}  // namespace

void require_units(const Architecture& architecture) {
  if (!architecture.known_sizes) return;
  const KnownSizes& known = *architecture.known_sizes;
  throw InputError(
      architecture.name + ":model_type",
      fmt::format("athanor knows the sizes of '{}', and has no units to run it", known.model_type),
      way_out_of(known));
}

}  // namespace athanor
