
(() => {
  const form = document.querySelector("form.filter");
  const rows = [...document.querySelectorAll("tr[data-verdict]")];
  if (!form || rows.length < 2) return;
  const typed = form.querySelector("input"), said = form.querySelector("output");
  const chips = [...form.querySelectorAll("button[data-verdict]")];
  let texts = null;
  const apply = () => {
    texts = texts || rows.map((row) => row.textContent.toLowerCase().replace(/\s+/g, " "));
    const words = typed.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset.verdict);
    let shown = 0;
    rows.forEach((row, at) => {
      const fits = (!wanted.length || wanted.includes(row.dataset.verdict)) && words.every((word) => texts[at].includes(word));
      row.hidden = !fits;
      shown += fits;
    });
    said.textContent = words.length || wanted.length ? `${shown} of ${rows.length} shown` : "";
  };
  chips.forEach((chip) => chip.addEventListener("click", () => {
    chip.setAttribute("aria-pressed", chip.getAttribute("aria-pressed") === "true" ? "false" : "true");
    apply();
  }));
  form.querySelector("button[data-save]").addEventListener("click", () => {
    const text = (one) => one.innerText.trim().replace(/\s+/g, " ");
    const isFormula = (text) => /^[=+\-@＝＋－＠]/.test(text) && !/^[-+]?\d[\d,.]*$/.test(text);  // a spreadsheet would run it
    const apart = (text) => text.replace(/([;|\t])(?=[=+@＝＋－＠-])/g, "$1'").replaceAll('"', '""');  // where lists have another separator
    const cell = (one) => `"${isFormula(text(one)) ? "'" : ""}${apart(text(one))}"`;
    const lines = [rows[0].closest("table").tHead.rows[0], ...rows.filter((row) => !row.hidden)].map((row) => [...row.cells].map(cell).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\r\n")], { type: "text/csv" }));
    link.download = `${document.title}.csv`;
    link.click();
  });
  typed.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  apply();
})();
