// SPDX-License-Identifier: Apache-2.0
// athanor.platform/4, and /1 to /3 where they are read (see platforms/README.md).
#include "sim/formats/files.hpp"
#include "sim/formats/json_writer.hpp"

#include <utility>

namespace athanor {
namespace {

OrderedJson json_of(const Curve& curve) {
  OrderedJson points = OrderedJson::array();
  for (const Curve::Point& point : curve.points) {
    points.push_back({{"size", point.size}, {"seconds", point.seconds}, {"spread", point.spread}});
  }
  return points;
}

Curve read_curve(const JsonReader& json) {
  Curve curve;
  for (JsonReader& point : json.items()) {
    curve.points.push_back(
        {point.key("size").number(), point.key("seconds").number(), point.key("spread").number()});
    point.reject_other_keys();
  }
  return curve;
}

OrderedJson json_of(const std::vector<CollectiveCurve>& curves) {
  OrderedJson list = OrderedJson::array();
  for (const CollectiveCurve& entry : curves) {
    list.push_back({{"world_size", entry.world_size}, {"curve", json_of(entry.curve)}});
  }
  return list;
}

std::vector<CollectiveCurve> read_collective(const JsonReader& json) {
  std::vector<CollectiveCurve> curves;
  for (JsonReader& entry : json.items()) {
    curves.push_back({entry.key("world_size").small_integer(1), read_curve(entry.key("curve"))});
    entry.reject_other_keys();
  }
  return curves;
}

OrderedJson json_of(const std::map<int, Curve>& by_threads) {
  OrderedJson list = OrderedJson::array();
  for (const auto& [threads, curve] : by_threads) {
    list.push_back({{"threads", threads}, {"curve", json_of(curve)}});
  }
  return list;
}

std::map<int, Curve> read_by_threads(const JsonReader& json) {
  std::map<int, Curve> by_threads;
  for (JsonReader& entry : json.items()) {
    const JsonReader threads = entry.key("threads");
    if (!by_threads.emplace(threads.small_integer(1), read_curve(entry.key("curve"))).second) {
      threads.reject("this number of threads is there twice", "Remove one of the two.");
    }
    entry.reject_other_keys();
  }
  return by_threads;
}

OrderedJson json_of(const std::map<Lane, double>& by_lane) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [lane, amount] : by_lane) {
    json[std::string(name_of(kLaneNames, lane))] = amount;
  }
  return json;
}

std::map<Lane, double> read_by_lane(JsonReader json) {
  std::map<Lane, double> by_lane;
  for (const Lane lane : kLanes) {
    if (const auto amount = json.optional_key(lane_name(lane))) by_lane[lane] = amount->number();
  }
  json.reject_other_keys();
  return by_lane;
}

OrderedJson json_of(const SharedResource& resource) {
  return {{"name", resource.name},
          {"scope", name_of(kScopeNames, resource.scope)},
          {"capacity", resource.capacity},
          {"use", json_of(resource.use)}};
}

SharedResource read_shared(JsonReader json) {
  SharedResource resource;
  resource.name = json.key("name").name();
  resource.scope = json.key("scope").choice(kScopeNames);
  resource.capacity = json.key("capacity").number();
  resource.use = read_by_lane(json.key("use"));
  json.reject_other_keys();
  return resource;
}

OrderedJson json_of(const ContentionSample& sample) {
  OrderedJson json{{"ranks", sample.ranks}, {"slowdown", json_of(sample.slowdown)}};
  if (sample.d2h_adds) json["d2h_adds"] = true;
  return json;
}

ContentionSample read_sample(JsonReader json) {
  ContentionSample sample;
  sample.ranks = json.key("ranks").small_integer(1);
  sample.slowdown = read_by_lane(json.key("slowdown"));
  if (const auto adds = json.optional_key("d2h_adds")) sample.d2h_adds = adds->boolean();
  json.reject_other_keys();
  return sample;
}

OrderedJson json_of(const PowerModel& power) {
  OrderedJson limits = OrderedJson::array();
  for (const PowerLimit& limit : power.limits) {
    limits.push_back({{"watts", limit.watts}, {"window_seconds", limit.window}});
  }
  return {{"idle_watts", power.idle_watts},
          {"limits", std::move(limits)},
          {"lane_watts", json_of(power.lane_watts)},
          {"matmul_flops_per_second", power.matmul_flops_per_second},
          {"matmul_watts", power.matmul_watts},
          {"exponent", power.exponent}};
}

PowerModel read_power(JsonReader json) {
  PowerModel power;
  power.idle_watts = json.key("idle_watts").number();
  for (JsonReader& limit : json.key("limits").items()) {
    power.limits.push_back({limit.key("watts").number(), limit.key("window_seconds").number()});
    limit.reject_other_keys();
  }
  power.lane_watts = read_by_lane(json.key("lane_watts"));
  power.matmul_flops_per_second = json.key("matmul_flops_per_second").number();
  power.matmul_watts = json.key("matmul_watts").number();
  power.exponent = json.key("exponent").number();
  json.reject_other_keys();
  return power;
}

OrderedJson json_of(const Network& network) {
  OrderedJson json{{"max_nodes", network.max_nodes},
                   {"nics", network.nics},
                   {"bytes_per_second", network.bytes_per_second},
                   {"latency", network.latency}};
  for (const LinkCurve& link : network.links) {
    json["links"].push_back({{"ranks", link.ranks}, {"curve", json_of(link.curve)}});
  }
  return json;
}

Network read_network(JsonReader json) {
  Network network;
  network.max_nodes = json.key("max_nodes").small_integer(1);
  network.nics = json.key("nics").small_integer(1);
  network.bytes_per_second = json.key("bytes_per_second").number();
  network.latency = json.key("latency").number();
  if (const auto links = json.optional_key("links")) {
    for (JsonReader& link : links->items()) {
      network.links.push_back({link.key("ranks").small_integer(1), read_curve(link.key("curve"))});
      link.reject_other_keys();
    }
  }
  json.reject_other_keys();
  return network;
}

OrderedJson json_of(Lane lane, const PooledRate& rate) {
  OrderedJson json{{"lane", name_of(kLaneNames, lane)},
                   {"factor", rate.factor},
                   {"between", rate.between},
                   {"spread", rate.spread},
                   {"looks", OrderedJson::array()}};
  for (const Look& look : rate.looks) {
    json["looks"].push_back({{"date", look.date},
                             {"seconds", look.seconds},
                             {"ratio", look.ratio},
                             {"scatter", look.scatter}});
  }
  return json;
}

void read_pooled(JsonReader json, Platform& platform) {
  const JsonReader lane = json.key("lane");
  PooledRate rate{.factor = json.key("factor").number(),
                  .between = json.key("between").number(),
                  .spread = json.key("spread").number(),
                  .looks = {}};
  for (JsonReader& look : json.key("looks").items()) {
    rate.looks.push_back({look.key("date").name(), look.key("seconds").number(),
                          look.key("ratio").number(), look.key("scatter").number()});
    look.reject_other_keys();
  }
  json.reject_other_keys();
  if (!platform.pooled.emplace(lane.choice(kLaneNames), std::move(rate)).second) {
    lane.reject("this lane is there twice", "Remove one of the two.");
  }
}

void add_curves(OrderedJson& json, const Platform& platform) {
  json["h2d"] = json_of(platform.h2d);
  json["d2h"] = json_of(platform.d2h);
  if (!platform.d2h_add.points.empty()) json["d2h_add"] = json_of(platform.d2h_add);
  json["all_gather"] = json_of(platform.all_gather);
  json["reduce_scatter"] = json_of(platform.reduce_scatter);
  json["all_reduce"] = json_of(platform.all_reduce);
  if (!platform.all_to_all.empty()) json["all_to_all"] = json_of(platform.all_to_all);
  json["cpu_adam"] = json_of(platform.cpu_adam);
  if (!platform.cpu_adam_beside.empty()) {
    json["cpu_adam_beside"] = json_of(platform.cpu_adam_beside);
  }
  json["device_adam"] = json_of(platform.device_adam);
  json["device_square_sum"] = json_of(platform.device_square_sum);
  json["host_square_sum"] = json_of(platform.host_square_sum);
  json["file_read"] = json_of(platform.file_read);
  json["file_write"] = json_of(platform.file_write);
  if (const auto& system = platform.file_system) {
    json["file_system"] = {{"type", system->type}, {"device", system->device}};
  }
}

void read_curves(JsonReader& json, Platform& platform) {
  platform.h2d = read_curve(json.key("h2d"));
  platform.d2h = read_curve(json.key("d2h"));
  if (const auto add = json.optional_key("d2h_add")) platform.d2h_add = read_curve(*add);
  platform.all_gather = read_collective(json.key("all_gather"));
  platform.reduce_scatter = read_collective(json.key("reduce_scatter"));
  platform.all_reduce = read_collective(json.key("all_reduce"));
  if (const auto curves = json.optional_key("all_to_all")) {
    platform.all_to_all = read_collective(*curves);
  }
  platform.cpu_adam = read_by_threads(json.key("cpu_adam"));
  if (const auto beside = json.optional_key("cpu_adam_beside")) {
    platform.cpu_adam_beside = read_by_threads(*beside);
  }
  platform.device_adam = read_curve(json.key("device_adam"));
  platform.device_square_sum = read_curve(json.key("device_square_sum"));
  platform.host_square_sum = read_curve(json.key("host_square_sum"));
  platform.file_read = read_curve(json.key("file_read"));
  platform.file_write = read_curve(json.key("file_write"));
  if (auto system = json.optional_key("file_system")) {
    platform.file_system = {system->key("type").name(), system->key("device").name()};
    system->reject_other_keys();
  }
}

void read_device(JsonReader& json, Platform& platform) {
  platform.name = json.key("name").name();
  platform.device = json.key("device").name();
  platform.backend = json.key("backend").name();
  platform.num_devices = json.key("num_devices").small_integer(1);
  platform.device_memory = json.key("device_memory").integer(1);
  platform.host_memory = json.key("host_memory").integer(1);
  platform.host_cores = json.key("host_cores").small_integer(1);
  if (const auto processor = json.optional_key("processor")) platform.processor = processor->name();
  platform.matmul_flops_per_second = json.key("matmul_flops_per_second").number();
}

}  // namespace

std::string to_json(const Platform& platform) {
  OrderedJson json{{"schema", "athanor.platform/4"},      {"name", platform.name},
                   {"device", platform.device},           {"backend", platform.backend},
                   {"num_devices", platform.num_devices}, {"device_memory", platform.device_memory},
                   {"host_memory", platform.host_memory}, {"host_cores", platform.host_cores}};
  if (!platform.processor.empty()) json["processor"] = platform.processor;
  json["matmul_flops_per_second"] = platform.matmul_flops_per_second;
  add_curves(json, platform);
  if (!platform.issue.empty()) json["issue"] = json_of(platform.issue);
  json["shared"] = OrderedJson::array();
  for (const SharedResource& resource : platform.shared) {
    json["shared"].push_back(json_of(resource));
  }
  if (platform.shared_adam_threads > 0) {
    json["shared_adam_threads"] = platform.shared_adam_threads;
  }
  for (const ContentionSample& sample : platform.contention) {
    json["contention"].push_back(json_of(sample));
  }
  if (platform.power) json["power"] = json_of(*platform.power);
  if (platform.network) json["network"] = json_of(*platform.network);
  for (const auto& [lane, rate] : platform.pooled) json["pooled"].push_back(json_of(lane, rate));
  json["provenance"] = json_of(platform.provenance);
  return dump_json(json);
}

Platform parse_platform(std::string_view text, const std::string& where) {
  const nlohmann::json document = parse_json(text, where);
  JsonReader json(document, ValuePath(where));
  const int version = check_schema(json, "platform", "calibrate", 4);
  Platform platform;
  read_device(json, platform);
  read_curves(json, platform);
  if (const auto issue = json.optional_key("issue")) platform.issue = read_by_lane(*issue);
  for (const JsonReader& resource : json.key("shared").items()) {
    platform.shared.push_back(read_shared(resource));
  }
  if (const auto threads = json.optional_key("shared_adam_threads")) {
    platform.shared_adam_threads = threads->small_integer(1);
  }
  if (const auto contention = json.optional_key(version == 1 ? "interference" : "contention")) {
    for (const JsonReader& sample : contention->items()) {
      platform.contention.push_back(read_sample(sample));
    }
  }
  if (const auto power = json.optional_key("power")) platform.power = read_power(*power);
  if (const auto network = json.optional_key("network")) platform.network = read_network(*network);
  if (const auto pooled = json.optional_key("pooled")) {
    for (const JsonReader& rate : pooled->items()) read_pooled(rate, platform);
  }
  if (version == 1) static_cast<void>(json.optional_key("disturbances"));  // a record, now ignored
  platform.provenance = read_provenance(json.key("provenance"));
  json.reject_other_keys();
  platform.validate(where);
  return platform;
}

}  // namespace athanor
