(() => {
  "use strict";
  const study = JSON.parse(document.getElementById("study").textContent);
  const small = matchMedia("(max-width: 600px)");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paper = 1042;  // pixels of a chart on paper, which the style sheet shrinks to the width of A4
  let printing = false;
  const narrow = { get matches() { return small.matches && !printing; } };

  // Colors come from the style sheet and long lists from the shared store, so that a figure is written once.
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const filled = (node) => {
    if (Array.isArray(node)) return node.map(filled);
    if (node === null || typeof node !== "object") return node;
    if (node.$css !== undefined) return css(node.$css);
    if (node.$ref !== undefined) return study.shared[node.$ref];
    return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, filled(value)]));
  };

  const dressed = (layout) => {
    const base = {
      autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", size: narrow.matches ? 11 : 13, color: css("--text") },
      margin: { l: 8, r: narrow.matches ? 8 : 16, t: narrow.matches ? 8 : 34, b: 8 },
      legend: {
        orientation: "h", x: 0, xanchor: "left", y: 0, yanchor: "bottom", yref: "container",
        font: { size: narrow.matches ? 10.5 : 12 },
        ...(narrow.matches ? { entrywidth: 0.48, entrywidthmode: "fraction" } : {}),
      },
      hoverlabel: { bgcolor: css("--surface"), bordercolor: css("--line"), font: { color: css("--text") }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--muted"), activecolor: css("--text") },
      dragmode: narrow.matches ? false : "zoom",
    };
    const merged = { ...base, ...filled(layout) };
    for (const key of Object.keys(merged)) {
      if (!/^[xy]axis\d*$/.test(key)) continue;
      merged[key] = { gridcolor: css("--grid"), zerolinecolor: css("--line"), linecolor: css("--line"), ...merged[key] };
    }
    // A box with ten lines in it would cover a small screen.
    if (narrow.matches && merged.hovermode === "x unified") merged.hovermode = "closest";
    return merged;
  };

  // Named one by one: the usual set has a button that would send the chart to a server.
  const config = () => ({
    responsive: true,
    displaylogo: false,
    displayModeBar: narrow.matches ? false : "hover",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  });

  // Two names share a line of a small screen, each broken where it would reach into the other.
  const broken = (name) => name.split(" ").reduce((lines, word) => {
    const last = lines[lines.length - 1];
    return last && (last + word).length < 18 ? [...lines.slice(0, -1), last + " " + word] : [...lines, word];
  }, []).join("<br>");

  const traced = (chart) => filled(chart.traces).map((trace) => {
    const copy = { ...trace };
    // Without the unified box a line's hover has to carry the line's name and day itself.
    if (narrow.matches && copy.mode === "lines" && !/extra/.test(copy.hovertemplate || "")) copy.hovertemplate = "%{x}: " + copy.hovertemplate;
    if (narrow.matches && copy.name) copy.name = broken(copy.name);
    if (narrow.matches && copy.type === "heatmap") copy.textfont = { size: 8 };
    return copy;
  });

  const draw = async (chart) => {
    const place = document.querySelector('[data-chart="' + chart.key + '"]');
    place.style.height = chart.height + (narrow.matches && chart.tall ? 110 : 0) + "px";
    const layout = dressed(chart.layout);
    if (printing) Object.assign(layout, { autosize: false, width: paper, height: parseFloat(place.style.height) });
    await Plotly.react(place, traced(chart), layout, { ...config(), responsive: !printing });
    place.dataset.drawn = String(1 + Number(place.dataset.drawn || 0));
  };

  const drawAll = async () => {
    for (const chart of study.charts) {
      await draw(chart);
      await new Promise((done) => setTimeout(done, 0));  // let the page scroll between two charts
    }
    document.documentElement.dataset.ready = "yes";
  };

  dark.addEventListener("change", drawAll);
  small.addEventListener("change", drawAll);
  // Charts that wait for their turn, or have the width of a screen, are drawn for paper before it is printed on.
  addEventListener("beforeprint", () => { printing = true; study.charts.forEach(draw); });
  addEventListener("afterprint", () => { printing = false; drawAll(); });
  drawAll();
})();
