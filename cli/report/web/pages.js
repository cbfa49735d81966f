// SPDX-License-Identifier: Apache-2.0
// One function for each kind of page: from the page's data to its sections.
"use strict";

const tierNames = {gpu: "GPU", pinned: "pinned host", host: "pageable host", nvme: "NVMe"};

// What a plan of any kind waits for, and what a faster machine would give.
function pathSection(path, step) {
  const parts = Object.entries(path);
  if (parts.length === 0) return null;
  const share = (value) => percent(value / step);
  return barChart({
    title: "Where the time goes",
    finding: `The chain of operations that makes the step as long as it is: ${share(parts[0][1])} of the step is ${parts[0][0]}.`,
    categories: parts.map(([name]) => name), sets: [{name: "seconds", values: parts.map(([, value]) => value)}],
    format: seconds, extra: parts.map(([, value]) => [`${share(value)} of the step`]),
    columns: [{name: "on the critical path", text: ([name]) => name},
              {name: "time", number: true, text: ([, value]) => seconds(value)},
              {name: "share", number: true, text: ([, value]) => share(value)}],
    rows: parts,
  });
}

function sensitivitySection(sensitivity, step) {
  const parts = Object.entries(sensitivity ?? {});
  if (parts.length === 0) return null;
  const saved = ([, {step_seconds: value}]) => Math.max(0, 1 - value / step);
  const best = parts[0];
  return barChart({
    title: "What would help most",
    finding: saved(best) < 0.001 ? "No single part of the machine, twice as fast, would shorten the step."
        : `With ${best[0]} twice as fast, the same plan would take ${seconds(best[1].step_seconds)} a step, ${percent(saved(best))} less.`,
    categories: parts.map(([name]) => name), sets: [{name: "shorter step", values: parts.map(saved)}], format: percent,
    extra: parts.map(([, value]) => [`${seconds(value.step_seconds)} a step`]),
    columns: [{name: "twice as fast", text: ([name]) => name},
              {name: "step", number: true, text: ([, value]) => seconds(value.step_seconds)},
              {name: "speedup", number: true, text: ([, value]) => `${digits(value.speedup)} x`}],
    rows: parts,
  });
}

function tierSection(peaks, finding) {
  const used = Object.keys(tierNames).filter((tier) => Object.values(peaks).some((peak) => peak[tier] > 0));
  return barChart({
    title: "Memory of one rank, at its peak", finding,
    categories: used.map((tier) => tierNames[tier]), format: bytes,
    sets: Object.entries(peaks).map(([name, peak]) => ({name, values: used.map((tier) => peak[tier])})),
    columns: [{name: "tier", text: (tier) => tierNames[tier]},
              ...Object.entries(peaks).map(([name, peak]) => ({name: `${name}, bytes`, number: true, text: (tier) => count(peak[tier])}))],
    rows: used,
  });
}

function memorySection(memory, note) {
  const lines = Object.entries(memory).filter(([, series]) => series.x.length > 0)
      .map(([name, series], i) => ({name, series, dashed: i > 0}));
  if (lines.length === 0) return null;
  const highest = Math.max(...lines[0].series.y);
  return lineChart({
    title: "GPU memory over a step", finding: `It peaks at ${bytes(highest)}.`, xName: "time", xFormat: microseconds,
    yFormat: bytes, lines, notes: [note],
  });
}

function operationsSection(operations) {
  const rows = operations.filter((row) => row.predicted_seconds > 0 || row.measured_seconds > 0)
      .sort((a, b) => b.measured_seconds - a.measured_seconds);
  const furthest = [...rows].sort((a, b) => Math.abs(b.measured_seconds - b.predicted_seconds) - Math.abs(a.measured_seconds - a.predicted_seconds))[0];
  return barChart({
    title: "Time of each kind of operation, in one step of rank 0",
    finding: furthest && furthest.ratio ? `Furthest from its prediction: ${furthest.kind} (${furthest.lane}) took ${digits(furthest.ratio)} times as long as predicted.` : "",
    categories: rows.map((row) => `${row.kind}, ${row.lane}`), format: seconds,
    sets: [{name: "predicted", values: rows.map((row) => row.predicted_seconds)},
           {name: "measured", values: rows.map((row) => row.measured_seconds)}],
    notes: ["Lanes run at the same time, so these times add up to more than the step."],
    columns: [{name: "operation", text: (row) => row.kind}, {name: "lane", text: (row) => row.lane},
              {name: "count", number: true, text: (row) => count(row.count)},
              {name: "predicted", number: true, text: (row) => seconds(row.predicted_seconds)},
              {name: "measured", number: true, text: (row) => seconds(row.measured_seconds)},
              {name: "measured/predicted", number: true, text: (row) => row.ratio ? digits(row.ratio) : "-"}],
    rows: operations,
  });
}

const kWarmUpSteps = 2;  // as athanor compare counts them

function runSeries(series, predicted) {
  const chart = (key, more) => series[key] && lineChart({
    xName: "step", xFormat: count, ...more, lines: [{name: more.name, series: series[key]}, ...(more.lines ?? [])],
  });
  const last = (key) => series[key].y.at(-1);
  return [
    pair(
      chart("loss", {title: "Loss", name: "loss", yFormat: digits,
                     lines: series.validation_loss ? [{name: "validation loss", series: series.validation_loss, symbols: true}] : [],
                     finding: series.loss && `From ${digits(series.loss.y[0])} to ${digits(last("loss"))}.`}),
      chart("step_seconds", {title: "Step time against its prediction", name: "measured", yFormat: seconds,
                             flat: [{name: "predicted", y: predicted}],
                             warmUp: kWarmUpSteps,
                             finding: "The first two steps warm up: they count neither in the median nor for the range drawn."})),
    pair(
      chart("tokens_per_second", {title: "Tokens per second, all ranks", name: "tokens per second", yFormat: count,
                                  warmUp: kWarmUpSteps}),
      chart("learning_rate", {title: "Learning rate", name: "learning rate", yFormat: digits}),
      chart("gradient_norm", {title: "Gradient norm", name: "gradient norm", yFormat: digits,
                              finding: "Before clipping."})),
  ];
}

function changedPlans(changes) {
  return (changes ?? []).map((change) => element("p", {},
    `After step ${count(change.after_step)} the run changed its plan: ` +
    [...change.moved_rates, `a step was predicted to take ${seconds(change.predicted_after)} instead of ` +
      `${seconds(change.predicted_before)}`].join("; ") + `. ${capital(change.changes.join("; "))}. ` +
    "Predictions, timelines and the measured step are those of the plan that it had last."));
}

function runPage(data) {
  const {comparison} = data;
  const step = comparison.step_seconds;
  const peaks = {predicted: {}, measured: {}};
  for (const [tier, peak] of Object.entries(comparison.peak_bytes)) {
    peaks.predicted[tier] = peak.predicted;
    peaks.measured[tier] = peak.measured;
  }
  const equal = Object.values(comparison.peak_bytes).every(({predicted, measured}) => predicted === measured);
  return [
    element("p", {}, `${data.model} on ${data.platform}, ${data.ranks} ${data.ranks === 1 ? "rank" : "ranks"}. ${capital(data.plan_summary)}.`),
    tiles(tile("predicted step", seconds(step.predicted)),
          tile("measured step", seconds(step.measured), `median of ${count(step.measured_steps)}; eight in ten from ${seconds(step.measured_low)} to ${seconds(step.measured_high)}`),
          tile("prediction off by", percent(step.relative_error)),
          step.repredicted ? tile("predicted again", seconds(step.repredicted), `with the rates of the run's first steps; off by ${percent(step.repredicted_relative_error)}`) : null,
          tile("tokens per second", count(data.tokens_per_step / step.measured), "all ranks, median step"),
          tile("GPU memory, peak", bytes(comparison.peak_bytes.gpu.measured), comparison.peak_bytes.gpu.predicted === comparison.peak_bytes.gpu.measured ? "as predicted, to the byte" : `predicted ${bytes(comparison.peak_bytes.gpu.predicted)}`)),
    ...changedPlans(comparison.changed_plan),
    ...runSeries(data.series, step.predicted),
    timelineChart(data.timelines),
    pair(tierSection(peaks, equal ? "Every tier took what was predicted, to the byte." : "Prediction and measurement differ."),
         memorySection(data.memory, "Levels are the plan's, which are exact; times are those of each timeline on rank 0.")),
    operationsSection(comparison.operations),
    pair(pathSection(data.critical_path, step.predicted), sensitivitySection(data.sensitivity, step.predicted)),
  ];
}

// Results of simulate and tune.
function resultTiles(result) {
  const low = result.step_seconds_low;
  const expected = result.step_seconds_p10 ? `eight of ten runs: ${seconds(result.step_seconds_p10)} to ${seconds(result.step_seconds_p90)}` : "";
  return tiles(
      tile("step", seconds(result.step_seconds), low ? `${expected}; the profile is scaled from ${result.profile_device}` : expected),
      tile("tokens per second", count(result.tokens_per_second), "all ranks"),
      result.model_flops_utilization > 0 ? tile("utilization", percent(result.model_flops_utilization), "of the sustained rate") : null,
      tile("GPU memory, peak", bytes(result.peak_bytes.gpu), "of one rank"),
      tile("bottleneck", result.bottleneck, result.loads?.[result.bottleneck] ? `${percent(result.loads[result.bottleneck])} busy` : ""),
      result.joules_per_token ? tile("energy", `${digits(1e3 * result.joules_per_token)} mJ`, "per token") : null);
}

function loadsSection(loads) {
  const parts = Object.entries(loads ?? {}).filter(([, share]) => share > 0.001).sort((a, b) => b[1] - a[1]);
  if (parts.length === 0) return null;
  return barChart({
    title: "How busy each part is", finding: `${capital(parts[0][0])} is in use for ${percent(parts[0][1])} of the step.`,
    categories: parts.map(([name]) => name), sets: [{name: "share of the step", values: parts.map(([, share]) => share)}],
    format: percent,
  });
}

const sortedPath = (path) => Object.fromEntries(Object.entries(path).sort((a, b) => b[1] - a[1]));
const sortedSensitivity = (sensitivity) =>
    Object.fromEntries(Object.entries(sensitivity ?? {}).sort((a, b) => a[1].step_seconds - b[1].step_seconds));

function resultSections(result, {loads = true} = {}) {
  return [
    pair(pathSection(sortedPath(result.critical_path), result.step_seconds),
         sensitivitySection(sortedSensitivity(result.sensitivity), result.step_seconds)
             ?? element("section", {}, element("h2", {}, "What would help most"),
                        element("p", {class: "soft"}, "Say --sensitivity to tune, and its result has what each part of the machine would be worth if it were twice as fast."))),
    pair(tierSection({predicted: result.peak_bytes}, "Exact: the plan's own numbers."), loads ? loadsSection(result.loads) : null),
  ];
}

const choicesText = (choices) => Object.entries(choices).map(([name, value]) => `${words(name)} ${value}`).join(", ");
const choiceLines = (choices) => Object.entries(choices).map(([name, value]) => `${words(name)}: ${value}`);
const outcomeNames = {"simulated": "simulated", "pruned": "ruled out by its lower bound", "does-not-fit": "does not fit"};
const planTime = (plan) => plan.step_seconds ?? plan.bound_seconds;
const timeText = (plan) => plan.step_seconds ? seconds(plan.step_seconds) : plan.bound_seconds ? `> ${seconds(plan.bound_seconds)}` : "-";

// Points of plans: step time over GPU memory. A set is {name, plans}; a plan's choices are on hover.
function scatterChart({title, finding, sets, notes = [], columns, size = () => 8}) {
  const rows = sets.flatMap(({plans}) => plans);
  const option = () => shared({
    legend: {...shared({}).legend, show: sets.length > 1},
    grid: {bottom: 30},
    xAxis: valueAxis("GPU memory", bytes, {nameLocation: "middle", nameGap: 28, ...byteTicks(Math.max(...rows.map((plan) => plan.peak_bytes.gpu)), Math.min(...rows.map((plan) => plan.peak_bytes.gpu)))}),
    yAxis: valueAxis("step", seconds, {scale: true}),
    dataZoom: zoom({filterMode: "none"}).slice(0, 1),
    tooltip: {trigger: "item", formatter: ({value: [, , name, index]}) => {
      const plan = sets.find((set) => set.name === name).plans[index];
      return tip(`${timeText(plan)}, ${bytes(plan.peak_bytes.gpu)} of GPU`,
                 ...(plan.node_host_bytes !== undefined ? [`host memory of a node: ${bytes(plan.node_host_bytes)}`] : []),
                 ...(plan.bottleneck ? [`bottleneck: ${plan.bottleneck}`] : []), ...(plan.reason ? [plan.reason] : []),
                 ...choiceLines(plan.choices));
    }},
    series: sets.map(({name, plans, symbol}) => ({
      name, type: "scatter", symbol: symbol ?? "circle", symbolSize: ([, , , index]) => size(plans[index]), itemStyle: {opacity: 0.8},
      data: plans.map((plan, i) => [plan.peak_bytes.gpu, planTime(plan), name, i]),
    })),
  });
  return section({title, finding, option, notes, height: 380, columns, rows});
}

function frontSection(front) {
  const plans = [...front.plans].sort((a, b) => a.peak_bytes.gpu - b.peak_bytes.gpu || a.step_seconds - b.step_seconds);
  const least = plans[0];
  const fastest = [...plans].sort((a, b) => a.step_seconds - b.step_seconds)[0];
  const mostHost = Math.max(...plans.map((plan) => plan.node_host_bytes), 1);
  return scatterChart({
    size: (plan) => 7 + 15 * Math.sqrt(plan.node_host_bytes / mostHost),
    title: "The fastest plans for less and less memory",
    finding: `${count(plans.length)} plans make the Pareto front: from ${seconds(fastest.step_seconds)} with ${bytes(fastest.peak_bytes.gpu)} of a GPU to ${seconds(least.step_seconds)} with ${bytes(least.peak_bytes.gpu)}. A point shows its plan.`,
    sets: [{name: "Pareto front", plans}],
    notes: [`Memory counts in steps of ${bytes(front.gpu_step_bytes)} of a GPU and ${bytes(front.host_step_bytes)} of the host; with the memory of each, no plan is more than ${percent(front.time_share)} faster. The larger a point, the more host memory its plan takes: up to ${bytes(mostHost)} of a node.`],
    columns: [{name: "step", number: true, text: timeText},
              {name: "GPU", number: true, text: (plan) => bytes(plan.peak_bytes.gpu)},
              {name: "host of a node", number: true, text: (plan) => bytes(plan.node_host_bytes)},
              {name: "bottleneck", text: (plan) => plan.bottleneck},
              {name: "choices", long: true, text: (plan) => choicesText(plan.choices)}],
  });
}

const rankColumns = [
  {name: "rank", number: true, text: (plan) => count(plan.rank)},
  {name: "step", number: true, text: timeText},
  {name: "GPU", number: true, text: (plan) => bytes(plan.peak_bytes.gpu)},
  {name: "why not", long: true, text: (plan) => plan.rank === 1 ? "the best" : plan.reason},
  {name: "outcome", text: (plan) => outcomeNames[plan.outcome]},
  {name: "choices", long: true, text: (plan) => choicesText(plan.choices)},
];

function topSection(top) {
  const slower = (plan) => planTime(plan) ? planTime(plan) / planTime(top[0]) - 1 : null;
  const made = barChart({
    title: "The best plans, and why each other lost",
    finding: top.length > 1 ? `The best takes ${timeText(top[0])}. The second: ${top[1].reason}.` : `It takes ${timeText(top[0])}.`,
    categories: top.map((plan) => `rank ${plan.rank}`), format: percent,
    sets: [{name: "longer than the best", values: top.map(slower)}],
    extra: top.map((plan) => [timeText(plan), plan.rank === 1 ? "the best" : plan.reason, bytes(plan.peak_bytes.gpu) + " of GPU", ...choiceLines(plan.choices)]),
    columns: rankColumns, rows: top,
    notes: ["Bars say how much longer a step is than the best plan's.", top.some((plan) => plan.outcome === "pruned") ? "Plans that were ruled out are drawn with their lower bound." : null],
  });
  made.querySelector("details").open = true;
  return made;
}

function candidatesSections({plans, counts}) {
  const of = (outcome) => plans.filter((plan) => plan.outcome === outcome);
  const total = Object.values(counts).reduce((sum, value) => sum + value, 0);
  const shown = plans.length < total ? `Shown are ${count(plans.length)} of ${count(total)} entries: the first of each outcome, in order of rank.` : null;
  const drawnSets = [{name: "simulated", plans: of("simulated")}, {name: "ruled out by its lower bound", plans: of("pruned"), symbol: "triangle"}]
      .filter(({plans: some}) => some.length > 0);
  const parts = Object.entries(counts).map(([outcome, number]) => `${count(number)} ${outcomeNames[outcome]}`).join(", ");
  const made = drawnSets.length === 0 ? [] : [scatterChart({
    title: "Every plan that was tried", finding: `${count(total)} entries: ${parts}.`, sets: drawnSets, notes: [shown],
    columns: rankColumns})];
  const lost = of("does-not-fit");
  if (lost.length > 0) {
    made.push(section({
      title: "What does not fit", finding: `${count(counts["does-not-fit"])} entries. First: ${lost[0].reason}.`,
      columns: rankColumns, rows: lost,
      notes: [lost.length < counts["does-not-fit"] ? `The table has the first ${count(lost.length)}, in order of rank.` : null],
    }));
  }
  return made;
}

function searchPage(data) {
  const {result} = data;
  const searched = result.searched;
  return [
    element("p", {}, `${capital(data.plan_summary)}.`),
    searched ? element("p", {class: "soft"}, `Of ${count(searched.plans)} plans, ${count(searched.simulated)} were simulated, ${count(searched.pruned)} were ruled out by a lower bound, and ${count(searched.not_fitting)} do not fit.`) : null,
    resultTiles(result),
    result.top?.length > 0 ? topSection(result.top) : null,
    result.pareto ? frontSection(result.pareto) : null,
    ...(data.candidates ? candidatesSections(data.candidates) : []),
    ...resultSections(result),
  ];
}

const candidatesPage = (data) => candidatesSections(data.candidates);

function planPage(data) {
  const parts = Object.entries(data.memory.static_bytes).flatMap(([tier, groups]) =>
      Object.entries(groups).map(([name, value]) => ({tier, name, value})))
      .sort((a, b) => b.value - a.value).filter(({value}) => value > 0);
  const homes = (unit) => unit.chunks.map(({count: number, parameters, optimizer}) => `${number} x (parameters ${parameters}, optimizer ${optimizer})`).join(", ") || "no parameters";
  return [
    element("p", {}, `${data.model} on ${data.platform}, ${data.ranks} ${data.ranks === 1 ? "rank" : "ranks"}. ${capital(data.plan_summary)}.`),
    resultTiles(data.result),
    timelineChart(data.timelines),
    pair(memorySection({predicted: data.levels}, "Levels are exact; times are predicted."),
         parts.length > 0 ? barChart({
           title: "What is held from the start, on one rank", finding: `The largest: ${parts[0].name}, ${bytes(parts[0].value)} of ${tierNames[parts[0].tier] ?? parts[0].tier}.`,
           categories: parts.map(({tier, name}) => `${name} (${tierNames[tier] ?? tier})`), format: bytes,
           sets: [{name: "bytes", values: parts.map(({value}) => value)}],
         }) : null),
    ...resultSections(data.result),
    section({title: "What the plan does with each unit", finding: "", tableName: "Units", rows: data.units,
             columns: [{name: "unit", text: (unit) => unit.name}, {name: "sharding", text: (unit) => unit.sharding},
                       {name: "activations", text: (unit) => unit.activation}, {name: "chunks", long: true, text: homes}]}),
  ];
}

// Range of tokens per second in which eight of ten runs are expected; one point where an older version gave none.
function throughputRange(row) {
  const tokens = row.tokens_per_second * row.step_seconds;
  return row.step_seconds_p10 ? [tokens / row.step_seconds_p90, tokens / row.step_seconds_p10] : [row.tokens_per_second, row.tokens_per_second];
}

// Errors as lines with ends, over bars or points. Each datum is [place, low, high] on the axes that `horizontal` names.
function whisker(horizontal) {
  return (params, api) => {
    const at = (value) => horizontal ? api.coord([value, api.value(0)]) : api.coord([api.value(0), value]);
    const [a, b] = [at(api.value(1)), at(api.value(2))];
    const end = horizontal ? [0, 5] : [5, 0];
    const line = (from, to) => ({type: "line", shape: {x1: from[0], y1: from[1], x2: to[0], y2: to[1]},
                                 style: {stroke: ground().ink, lineWidth: 1.4}});
    const cap = (point) => line([point[0] - end[0], point[1] - end[1]], [point[0] + end[0], point[1] + end[1]]);
    return {type: "group", children: [line(a, b), cap(a), cap(b)]};
  };
}

const platformColumns = [
  {name: "platform", text: (row) => row.platform}, {name: "GPUs", number: true, text: (row) => count(row.gpus)},
  {name: "step", number: true, text: (row) => row.step_seconds ? seconds(row.step_seconds) : "-"},
  {name: "8 of 10 runs", number: true, text: (row) => row.step_seconds_p10 ? `${seconds(row.step_seconds_p10)} to ${seconds(row.step_seconds_p90)}` : "-"},
  {name: "tokens/s", number: true, text: (row) => row.tokens_per_second ? count(row.tokens_per_second) : "-"},
  {name: "utilization", number: true, text: (row) => row.model_flops_utilization ? percent(row.model_flops_utilization) : "-"},
  {name: "GPU", number: true, text: (row) => row.peak_bytes ? bytes(row.peak_bytes.gpu) : "-"},
  {name: "price an hour", number: true, text: (row) => row.price_per_hour !== undefined ? digits(row.price_per_hour * row.nodes) : "-"},
  {name: "per million tokens", number: true, text: (row) => row.price_per_million_tokens !== undefined ? digits(row.price_per_million_tokens) : "-"},
  {name: "plan, or why there is none", long: true, text: (row) => row.plan_summary ?? row.reason},
];

function platformTip(row) {
  const [low, high] = throughputRange(row);
  return tip(row.platform, `${count(row.tokens_per_second)} tokens/s${low < high ? `, eight of ten runs ${count(low)} to ${count(high)}` : ""}`,
             `${seconds(row.step_seconds)} a step on ${row.gpus} GPUs`,
             ...(row.price_per_million_tokens !== undefined ? [`${digits(row.price_per_million_tokens)} per million tokens`] : []), row.plan_summary);
}

function pricesSection(rows) {
  const cheapest = [...rows].sort((a, b) => a.price_per_million_tokens - b.price_per_million_tokens)[0];
  const price = (row) => row.price_per_hour * row.nodes;
  const dearest = Math.max(...rows.map(price));
  const option = () => shared({
    legend: {show: false}, grid: {top: 28, bottom: 30, right: 30},
    xAxis: valueAxis("price an hour", digits, {nameLocation: "middle", nameGap: 28, min: 0}),
    yAxis: valueAxis("tokens/s", count, {min: 0}),
    tooltip: {trigger: "item", formatter: ({dataIndex}) => platformTip(rows[dataIndex])},
    series: [
      {type: "custom", silent: true, renderItem: whisker(false), data: rows.map((row) => [price(row), ...throughputRange(row)]), encode: {x: 0, y: [1, 2]}},
      {type: "scatter", symbolSize: 12, data: rows.map((row) => ({value: [price(row), row.tokens_per_second], label: {position: price(row) > 0.55 * dearest ? "left" : "right"}})),
       itemStyle: {color: palette()[0]}, labelLayout: {moveOverlap: "shiftY"},
       label: {show: !narrow(), color: ground().ink, formatter: ({dataIndex}) => rows[dataIndex].platform}},
    ],
  });
  return section({
    title: "Tokens per second against price",
    finding: `${cheapest.platform} trains cheapest: ${digits(cheapest.price_per_million_tokens)} per million tokens. Prices are the caller's.`,
    option, height: 420, columns: platformColumns, rows, notes: [rows.some((row) => row.step_seconds_p10) ? "Lines span eight of ten runs." : null, narrow() ? "A point shows its platform." : null],
  });
}

function platformsPage({platforms}) {
  const planned = platforms.filter((row) => row.outcome === "planned");
  const priced = planned.filter((row) => row.price_per_million_tokens !== undefined);
  const rows = [...planned].sort((a, b) => b.tokens_per_second - a.tokens_per_second);
  const option = () => shared({
    legend: {show: false}, grid: {top: 8},
    xAxis: valueAxis("", count, {min: 0, splitNumber: narrow() ? 3 : 6}),
    yAxis: axis({type: "category", inverse: true, data: rows.map((row) => row.platform), axisTick: {show: false},
                 axisLabel: {hideOverlap: false, width: narrow() ? 110 : 220, overflow: "truncate"}}),
    tooltip: {trigger: "axis", axisPointer: {type: "shadow"}, formatter: (items) => platformTip(rows[items[0].dataIndex])},
    series: [{type: "bar", data: rows.map((row) => row.tokens_per_second), barMaxWidth: 18},
             {type: "custom", silent: true, renderItem: whisker(true), data: rows.map((row, i) => [i, ...throughputRange(row)]), encode: {x: [1, 2], y: 0}}],
  });
  const scaled = planned.find((row) => row.profile_device);
  return [
    priced.length > 0 ? pricesSection(priced) : null,
    section({title: "Tokens per second of each platform's best plan",
             finding: rows.length > 0 ? `${rows[0].platform} is the fastest: ${count(rows[0].tokens_per_second)} tokens per second.` : "No platform has a plan.",
             option: rows.length > 0 ? option : null, height: 56 + rows.length * 34,
             notes: [rows.some((row) => row.step_seconds_p10) ? `Lines span eight of ten runs.${scaled ? ` The profile is scaled from ${scaled.profile_device}.` : ""}` : null],
             tableName: "All platforms", columns: platformColumns, rows: platforms}),
  ];
}

const pages = {run: runPage, plan: planPage, search: searchPage, candidates: candidatesPage, platforms: platformsPage};
