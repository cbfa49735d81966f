// SPDX-License-Identifier: Apache-2.0
// Numbers as athanor's programs write them: three significant digits and a unit.
"use strict";

function digits(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(2);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return Number(value.toPrecision(3)).toString();
}

function scaled(value, steps, last) {
  for (const [limit, factor, unit] of steps) {
    if (Math.abs(value) >= limit) return `${digits(value / factor)} ${unit}`;
  }
  return `${digits(value / last[0])} ${last[1]}`;
}

const seconds = (value) => scaled(value, [[1, 1, "s"], [1e-3, 1e-3, "ms"]], [1e-6, "µs"]);
const bytes = (value) => scaled(value,
    [[2 ** 40, 2 ** 40, "TiB"], [2 ** 30, 2 ** 30, "GiB"], [2 ** 20, 2 ** 20, "MiB"], [2 ** 10, 2 ** 10, "KiB"]],
    [1, "B"]);
const count = (value) => Math.round(value).toLocaleString("en");
const percent = (share) => `${Math.abs(share) < 5e-5 ? "0" : digits(100 * share)} %`;
const words = (name) => name.replaceAll("_", " ");
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
