import { words } from "../words";

const billion = 1e9;

/** Formats dollars with cents; amounts below a cent get more digits. */
export const dollars = (usd: number) => `$${usd > 0 && usd < 0.01 ? usd.toFixed(4) : usd.toFixed(2)}`;

/** The cost of tokens: "unknown" if no price is known, and "at least" an amount if some prices are not. */
export function cost(of: { input: number; output: number; cacheRead: number; cacheWrite: number; cost?: number; priced?: number }): string {
  const total = of.input + of.output + of.cacheRead + of.cacheWrite;
  return costOf(of.priced || total === 0 ? (of.cost ?? 0) / billion : undefined, total - (of.priced ?? 0));
}

/**
 * costOf is like cost, for the API's form: dollars, and the number of tokens without a known price.
 */
export function costOf(usd: number | undefined, unpriced = 0): string {
  if (usd === undefined) return words.cost.unknown;
  return unpriced > 0 ? words.cost.atLeast(dollars(usd)) : dollars(usd);
}
