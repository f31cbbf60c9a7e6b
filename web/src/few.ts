/** Formats a number: 1234567 as 1.2M. */
export const few = (n: number) => (n < 1000 ? String(n) : n < 1e6 ? `${(n / 1e3).toFixed(n < 1e4 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`);

/** Formats a number of bytes: 1536 as 1.5 kB. */
export const sizeOf = (bytes: number): string => {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let n = bytes;
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) (n /= 1024), unit++;
  return `${unit === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[unit]}`;
};

/**
 * Formats an integer as 12,345. It does not use Intl, because the first use of Intl takes longer
 * than rendering a row.
 */
export const grouped = (n: number): string => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
