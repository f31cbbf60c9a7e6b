import { expect, test } from "vitest";
import { pathOf, placeOf } from "./route";

test("an address is a place, and a place an address", () => {
  for (const path of ["/agents", "/agents/bc-1", "/agents/bc-1/changes", "/agents/bc-1/machine", "/approvals", "/environments", "/environments/a%20b", "/settings"]) {
    expect(pathOf(placeOf(path))).toBe(path);
  }
  expect(placeOf("/")).toEqual({ page: "agents" });
  for (const path of ["/nowhere", "/agents/bc-1/other"]) expect(placeOf(path)).toEqual({ page: "unknown" });
  expect(placeOf("/agents/%E0%A4%A")).toMatchObject({ page: "agent", id: "%E0%A4%A" }); // no UTF-8
});
