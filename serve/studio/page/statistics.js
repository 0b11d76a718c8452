// Statistics of few runs.

// The 0.975 quantile of Student's t by degrees of freedom, from 1; beyond them the normal distribution's.
const T = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11, 2.101, 2.093, 2.086];

/** estimate is the mean of values and the half width of its 95 % confidence interval, which one value does not have. @param {number[]} values */
export function estimate(values) {
  const n = values.length, mean = values.reduce((a, b) => a + b, 0) / n;
  if (n < 2) return { n, mean, half: NaN };
  const variance = values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (n - 1);
  return { n, mean, half: (T[n - 2] ?? 1.96) * Math.sqrt(variance / n) };
}
