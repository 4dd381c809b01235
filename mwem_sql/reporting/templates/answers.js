"use strict";
(() => {
  const { columns, rows } = JSON.parse(document.getElementById("data").textContent);
  const PAGE = 50, PRINTED = 1000;
  const head = document.querySelector("#answers thead tr"), body = document.querySelector("#answers tbody");
  const search = document.getElementById("search"), kind = document.getElementById("kind"), count = document.getElementById("count");
  const order_text = document.getElementById("order"), back = document.getElementById("back"), on = document.getElementById("on");
  const place = (name) => columns.findIndex((column) => column.name === name);
  const low = place("low"), high = place("high"), measured = place("measured");
  let sorted = columns.findIndex((column) => column.first), falling = sorted >= 0, page = 0, size = PAGE;
  const shown = (value, row) => {
    if (value === null) return "";
    if (typeof value !== "number") return String(value);
    const width = low >= 0 && row[low] !== null && row[high] !== null ? row[high] - row[low] : Math.abs(value);
    const digits = width >= 20 || Number.isInteger(value) ? 0 : width >= 2 ? 1 : 3;
    return value.toLocaleString("en", { maximumFractionDigits: digits });
  };
  const texts = rows.map((row) => row.filter((value) => typeof value === "string").join(" ").toLowerCase());
  const order = (a, b) => {
    const [x, y] = [rows[a][sorted], rows[b][sorted]];
    if (x === y) return a - b;
    if (x === null || y === null) return x === null ? 1 : -1;
    const less = typeof x === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return falling ? -less : less;
  };
  const draw = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [...rows.keys()].filter((k) => words.every((word) => texts[k].includes(word)) && (!kind.value || rows[k][measured] === kind.value));
    if (sorted >= 0) found.sort(order);
    const pages = Math.max(1, Math.ceil(found.length / size));
    page = Math.min(page, pages - 1);
    body.replaceChildren(...found.slice(page * size, (page + 1) * size).map((k) => {
      const line = document.createElement("tr");
      rows[k].forEach((value, column) => {
        const cell = line.insertCell();
        cell.textContent = shown(value, rows[k]);
        cell.dataset.title = columns[column].title;
        cell.dir = "auto";
        cell.className = columns[column].name + (columns[column].number ? " number" : "");
        if (column === measured && value) cell.classList.add(value.split(" ")[0]);
      });
      return line;
    }));
    if (!found.length) {
      const cell = body.insertRow().insertCell();
      cell.colSpan = Math.max(1, columns.length);
      cell.className = "nothing";
      cell.textContent = rows.length ? "Nothing found. Take a word out of the search, or choose 'all' under Measured." : "The workload has no answers.";
    }
    const number = (value) => value.toLocaleString("en");
    count.textContent = number(found.length) + " of " + number(rows.length) + " answers" + (pages > 1 ? ", page " + number(page + 1) + " of " + number(pages) : "");
    order_text.textContent = (sorted < 0 ? "In the order of the workload." : "Sorted by '" + columns[sorted].title + "', " + (columns[sorted].number ? (falling ? "the largest first." : "the smallest first.") : (falling ? "from Z to A." : "from A to Z."))) + " Press a column's name to sort by it, and again to turn the order round.";
    back.disabled = page === 0;
    on.disabled = page === pages - 1;
    head.querySelectorAll("th").forEach((th, column) => {
      if (column === sorted) th.setAttribute("aria-sort", falling ? "descending" : "ascending"); else th.removeAttribute("aria-sort");
    });
  };
  columns.forEach((column, number) => {
    const th = document.createElement("th"), button = document.createElement("button");
    th.scope = "col";
    if (column.number) th.className = "number";
    button.type = "button";
    button.textContent = th.dataset.title = column.title;
    button.addEventListener("click", () => { falling = sorted === number && !falling; sorted = number; page = 0; draw(); });
    th.append(button);
    head.append(th);
  });
  if (measured < 0) kind.parentElement.hidden = true;
  else for (const value of [...new Set(rows.map((row) => row[measured]))].filter(Boolean).sort()) kind.add(new Option(value, value));
  search.addEventListener("input", () => { page = 0; draw(); });
  kind.addEventListener("change", () => { page = 0; draw(); });
  back.addEventListener("click", () => { page -= 1; draw(); });
  on.addEventListener("click", () => { page += 1; draw(); });
  // On paper there is no next page to press: as many answers as paper is for.
  const onPaper = (printed) => { [size, page] = [printed ? PRINTED : PAGE, 0]; draw(); };
  addEventListener("beforeprint", () => onPaper(true));
  addEventListener("afterprint", () => onPaper(false));
  draw();
  // A sign where a table has more than is in sight.
  const sign = () => document.querySelectorAll(".table").forEach((table) => table.classList.toggle("more", table.scrollLeft + table.clientWidth < table.scrollWidth - 1));
  document.querySelectorAll(".table").forEach((table) => table.addEventListener("scroll", sign));
  addEventListener("resize", sign);
  sign();
})();
