import { expect, test } from "vitest";
import { sizeOf } from "./DiskUsage";

test("sizes have a unit", () => {
  expect([0, 1023, 1024, 1536, 3 * 1024 ** 3, 5000 * 1024 ** 4].map(sizeOf)).toEqual(["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "3.0 GiB", "5000.0 TiB"]);
});
