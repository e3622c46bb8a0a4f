// SPDX-License-Identifier: Apache-2.0
// Formats numbers, durations and times for people.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value) => whole.format(value ?? 0);
export const compact = (value) =>
  value < 10000 ? whole.format(Math.round(value)) : short.format(value);

export function rate(value) {
  if (value === undefined || value === null) return "–";
  if (value > 0 && value < 10) return value.toFixed(1);
  return compact(value);
}

export function duration(ms) {
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} m ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} m`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// Formats "30000ms", the form of the settings, as "30 s".
export function setting(value) {
  const text = String(value);
  const ms = /^(\d+)ms$/.exec(text);
  if (!ms) return text;
  for (const [unit, size] of [
    ["d", 86400000],
    ["h", 3600000],
    ["m", 60000],
    ["s", 1000],
  ])
    if (ms[1] > 0 && ms[1] % size === 0) return `${ms[1] / size}${unit}`;
  return text;
}

export function bytes(size) {
  if (size < 1024) return size === 1 ? "1 byte" : `${size} bytes`;
  return size < 1048576 ? `${(size / 1024).toFixed(1)} KiB` : `${(size / 1048576).toFixed(1)} MiB`;
}

export function moment(ms) {
  const day = new Date(ms);
  const two = (value) => String(value).padStart(2, "0");
  const clock = `${two(day.getHours())}:${two(day.getMinutes())}:${two(day.getSeconds())}`;
  const date = `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`;
  return `${date} ${clock}.${String(day.getMilliseconds()).padStart(3, "0")}`;
}

export const clockTime = (ms) => moment(ms).slice(11);
