// SPDX-License-Identifier: Apache-2.0
// Makes the page from the data inside it.
"use strict";

{
  const data = JSON.parse(document.getElementById("data").textContent);
  const page = document.getElementById("page");
  page.replaceChildren(...pages[data.kind](data).filter(Boolean));
  if (hasCharts) drawAll();
}
