/** sizeOf writes a number of bytes in binary units: 0 B, 1.5 KiB, 2.0 GiB. */
export function sizeOf(bytes: number): string {
  let n = bytes;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024) return `${unit === "B" ? n : n.toFixed(1)} ${unit}`;
    n /= 1024;
  }
  return `${n.toFixed(1)} TiB`;
}
