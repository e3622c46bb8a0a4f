// SPDX-License-Identifier: Apache-2.0
// Reads the node's /metrics: parses the Prometheus text into samples and makes tables of them.

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

// [{name, labels, value}]
export function readSamples(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const found = line.startsWith("#") ? null : SAMPLE.exec(line);
    if (!found) continue;
    const pairs = [...(found[2] ?? "").matchAll(LABEL)].map(([, key, value]) => [
      key,
      value.replace(/\\(.)/g, "$1"),
    ]);
    samples.push({ name: found[1], labels: Object.fromEntries(pairs), value: Number(found[3]) });
  }
  return samples;
}

// Returns a function that sums a metric over the samples with these labels. It returns NaN if there
// is none.
export function summing(samples) {
  const byName = Map.groupBy(samples, ({ name }) => name);
  return (name, like = {}) => {
    const some = (byName.get(name) ?? []).filter(({ labels }) =>
      Object.entries(like).every(([key, value]) =>
        value instanceof RegExp ? value.test(labels[key]) : labels[key] === value,
      ),
    );
    return some.length ? some.reduce((total, { value }) => total + value, 0) : NaN;
  };
}

// The mean of a histogram, in milliseconds.
export function meanMs(sum, name, like) {
  return (sum(`${name}_sum`, like) / sum(`${name}_count`, like)) * 1000;
}

// All values of one label.
export function labelsOf(samples, name, keys) {
  const seen = new Map();
  for (const sample of samples)
    if (sample.name === name) {
      const like = Object.fromEntries(keys.map((key) => [key, sample.labels[key]]));
      seen.set(JSON.stringify(like), like);
    }
  return [...seen.values()];
}
