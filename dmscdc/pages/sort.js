(() => {
  if (window.dmscdcSorts) return;
  window.dmscdcSorts = true;
  const value = (row, at) => {
    const text = row.cells[at].textContent.trim(), number = Number(text.replace(/,/g, ""));
    return text === "" || Number.isNaN(number) ? [1, text.toLowerCase()] : [0, number];
  };
  const order = (a, b) => a[0] - b[0] || (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0);
  document.addEventListener("click", (event) => {
    const head = event.target.closest("table.dataframe thead th, table.mathjax_ignore thead th");
    if (!head) return;
    const down = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    head.closest("table").querySelectorAll("thead th").forEach((one) => one.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down === 1 ? "ascending" : "descending");
    const body = head.closest("table").tBodies[0], at = head.cellIndex;
    body.append(...[...body.rows].sort((a, b) => down * order(value(a, at), value(b, at))));
  });
})();
