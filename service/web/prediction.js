// The form that asks for a prediction, and the terms that add up to its score.

let flat = false;

function showForm(status) {
  at("try").hidden = status.role === "learn";
  flat = status.features.flat;
  if (!at("features").value) {
    const example = Object.fromEntries(status.features.columns.slice(0, 8).map((name) => [name, 1]));
    at("features").value = JSON.stringify(example);
  }
}

function explainByFeatures(title, parts) {
  const terms = [...parts.features.map((one) => one.contribution), parts.bias, parts.constant, parts.omitted.contribution];
  const most = Math.max(...terms.filter(known).map(Math.abs));
  const sum = (name, value) => [name, "", "", "", swing(value, most, number(value))];
  const lines = parts.features.map((one) => [one.name + collisions(one), number(one.value), number(one.scaled),
    number(one.weight), swing(one.contribution, most, number(one.contribution))]);
  lines.push(sum("bias", parts.bias));
  if (parts.constant) lines.push(sum("constant", parts.constant));
  if (parts.omitted.count) lines.push(sum(`${parts.omitted.count} more`, parts.omitted.contribution));
  lines.push(["score", "", "", "", make("b", number(parts.score))]);
  return table(title, ["feature", "value", "scaled", "weight", "adds"], lines);
}

at("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  at("explained").replaceChildren();
  let features;
  try {
    features = JSON.parse(at("features").value);
  } catch {
    at("answer").textContent = "this is not JSON";
    return;
  }
  const seen = await fetchJson("predict?explain=true", JSON.stringify(flat ? features : { features }));
  if (seen.status !== 200) {
    at("answer").textContent = seen.message;
    return;
  }
  const { label, score, probability, explanation } = seen.document;
  at("answer").textContent = `${label}: score ${number(score)}` +
    (known(probability) ? `, probability ${number(probability, 3)}` : "");
  const why = explanation.support ? explainByRows : explainByFeatures;
  at("explained").append(why(`why ${label}`, explanation));
  const second = explanation.runner_up;
  if (second) at("explained").append(why(`runner-up: ${second.label}`, second));
});
