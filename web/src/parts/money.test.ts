import { expect, test } from "vitest";
import { cost, costOf } from "./money";

test("a price that is not known is never nothing", () => {
  const used = { input: 10, output: 10, cacheRead: 0, cacheWrite: 0 };
  expect(cost(used)).toBe("cost unknown");
  expect(cost({ ...used, priced: 20, cost: 0 })).toBe("$0.00");
  expect(cost({ ...used, priced: 20, cost: 1_230_000_000 })).toBe("$1.23");
  expect(cost({ ...used, priced: 10, cost: 2_500_000 })).toBe("over $0.0025");
  expect(costOf(undefined, 3)).toBe("cost unknown");
  expect(costOf(4, 0)).toBe("$4.00");
});
