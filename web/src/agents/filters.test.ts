import { expect, test } from "vitest";
import { choiceIn, queryOf, type FilterChoice } from "./Filters";

test("filters survive in an address, and other parameters stay", () => {
  const choice: FilterChoice = { search: "fix & find", kind: "failed", repository: "https://git.test/a/b", who: "everybody", when: "between", from: "2030-01-02", to: "2030-02-01" };
  const query = queryOf(choice, "?demo=slow");
  expect(query).toContain("demo=slow");
  expect(choiceIn(query)).toEqual(choice);
  expect(queryOf({}, query)).toBe("?demo=slow");
  expect(queryOf({ kind: "all" }, "")).toBe("");
});

test("what an address says that is no filter is left out", () => {
  expect(choiceIn("?status=constructor&created=never&from=x&who=me")).toBeUndefined();
  expect(choiceIn("?status=done&from=2030-99-99")).toEqual({ kind: "done" });
});
