import { words } from "../words";

const billion = 1e9;

/** Dollars, as people write them: cents, and more digits only where there are none. */
export const dollars = (usd: number) => `$${usd > 0 && usd < 0.01 ? usd.toFixed(4) : usd.toFixed(2)}`;

/** What tokens cost: unknown unless the price of some was known, and no sum where that of some was not. */
export function cost(of: { input: number; output: number; cacheRead: number; cacheWrite: number; cost?: number; priced?: number }): string {
  const total = of.input + of.output + of.cacheRead + of.cacheWrite;
  return costOf(of.priced || total === 0 ? (of.cost ?? 0) / billion : undefined, total - (of.priced ?? 0));
}

/** The same of what the API says: dollars, and tokens whose price was not known. */
export function costOf(usd: number | undefined, unpriced = 0): string {
  if (usd === undefined) return words.cost.unknown;
  return unpriced > 0 ? words.cost.atLeast(dollars(usd)) : dollars(usd);
}
