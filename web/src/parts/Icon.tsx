/** The icons, each in a 24 × 24 view box. */
const paths = {
  agents: "M4 6h16M4 12h16M4 18h10",
  approvals: "M12 3 4 6v6c0 4.5 3.2 7.7 8 9 4.8-1.3 8-4.5 8-9V6zM9 12l2.2 2.2L15.5 10",
  environments: "M12 3 3.5 7.5 12 12l8.5-4.5zM3.5 12 12 16.5l8.5-4.5M3.5 16.5 12 21l8.5-4.5",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M13 5v4M7 15v4",
  team: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 20c.6-3.6 3-5.5 6.5-5.5s5.9 1.9 6.5 5.5M16 4.5a3.5 3.5 0 0 1 0 6.3M18 14.8c2 .7 3.2 2.5 3.5 5.2",
  help: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M9.5 9.5a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.9-1.1 1.8M12 16.8v.1",
  plus: "M12 5v14M5 12h14",
  search: "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM20 20l-4.8-4.8",
  filter: "M4 6h16M7 12h10M10 18h4",
  bell: "M6 17V11a6 6 0 0 1 12 0v6l1.5 1.5h-15zM10.5 21h3",
  keyboard: "M3 6h18v12H3zM7 10h.1M11 10h.1M15 10h.1M7 14h10",
  close: "M6 6l12 12M18 6 6 18",
  check: "M5 12.5 10 17 19 7",
  warn: "M12 8v5M12 16.5v.1M12 3 2.5 20h19z",
  stop: "M7 7h10v10H7z",
  pause: "M8 5v14M16 5v14",
  play: "M7 5l12 7-12 7z",
  fork: "M6 4v6a4 4 0 0 0 4 4h4a4 4 0 0 0 4-4V4M12 14v6",
  branch: "M6 4v16M6 14a6 6 0 0 0 6-6h4M18 10a2 2 0 1 0 0-4 2 2 0 0 0 0 4z",
  terminal: "M4 5h16v14H4zM8 10l3 2.5L8 15M13 15h4",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  folder: "M3 6h6l2 2h10v11H3z",
  newFile: "M6 3h8l4 4v14H6zM14 3v4h4M12 11v6M9 14h6",
  newFolder: "M3 6h6l2 2h10v11H3zM12 11v5M9.5 13.5h5",
  upload: "M12 16V5M7 9l5-5 5 5M4 20h16",
  trash: "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13",
  refresh: "M20 6v5h-5M4 18v-5h5M5.5 9a7 7 0 0 1 12-2.5L20 9M4 15l2.5 2.5a7 7 0 0 0 12-2.5",
  list: "M9 6h11M9 12h11M9 18h11M4.5 6h.1M4.5 12h.1M4.5 18h.1",
  globe: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18",
  down: "M6 9l6 6 6-6",
  up: "M6 15l6-6 6 6",
  right: "M9 6l6 6-6 6",
  left: "M15 6l-6 6 6 6",
  bottom: "M12 5v13M6 12l6 6 6-6",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  download: "M12 4v11M7 11l5 5 5-5M4 20h16",
  key: "M14.5 13a4.5 4.5 0 1 0-4-2.4L4 17v3h3v-2h2v-2h2l1.6-1.6M15.5 8.5h.1",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7v5l3 2",
  think: "M12 4a6 6 0 0 0-3 11.2V18h6v-2.8A6 6 0 0 0 12 4zM10 21h4",
  machine: "M4 5h16v10H4zM9 20h6M12 15v5",
  dots: "M5 12h.1M12 12h.1M19 12h.1",
  out: "M14 4h6v16h-6M10 8l-4 4 4 4M6 12h9",
  comment: "M4 5h16v11H9l-5 4z",
  send: "M5 12h13M12 6l6 6-6 6",
  spinner: "M12 3a9 9 0 1 1-6.4 2.6",
  archive: "M4 5h16v4H4zM6 9v10h12V9M10 13h4",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, spin }: { name: IconName; spin?: boolean }) {
  return (
    <svg className={spin ? "icon spin" : "icon"} viewBox="0 0 24 24" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}
