/** A file to upload, and its path below the folder on which it was dropped. */
export type Upload = { path: string; file: File };

/** Returns the dropped files, including those in folders. Call it in the event handler. */
export function dropped(data: DataTransfer): Promise<Upload[]> {
  const entries = [...data.items].map((i) => i.webkitGetAsEntry()).filter((e) => e !== null);
  if (entries.length === 0) return Promise.resolve([...data.files].map((file) => ({ path: file.name, file })));
  return Promise.all(entries.map((e) => within(e, ""))).then((all) => all.flat());
}

async function within(entry: FileSystemEntry, folder: string): Promise<Upload[]> {
  const path = folder + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    return [{ path, file }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const found: Upload[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject)); // at most 100 at once
    if (some.length === 0) return found;
    for (const e of some) found.push(...(await within(e, `${path}/`)));
  }
}
