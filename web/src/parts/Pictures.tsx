import { useState, type ClipboardEvent, type DragEvent } from "react";
import type { PromptImage } from "../api/types";
import { words } from "../words";
import { Icon } from "./Icon";

const kinds = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const most = 5;
const largest = 15 << 20; // maximum size in bytes

export type Picture = { mimeType: string; data: string }; // base64

export const imagesOf = (pictures: readonly Picture[]): PromptImage[] => pictures.map(({ mimeType, data }) => ({ mimeType, data }));

/** usePictures accepts pasted and dropped images, and tells the user why it refuses others. */
export function usePictures() {
  const [pictures, setPictures] = useState<Picture[]>([]);
  const [problem, setProblem] = useState("");
  const [over, setOver] = useState(false);
  const add = async (files: Iterable<File>) => {
    setProblem("");
    for (const file of files) {
      if (!kinds.includes(file.type)) setProblem(words.spawn.badImage);
      else if (file.size > largest) setProblem(words.spawn.tooLarge);
      else {
        const data = await read(file);
        setPictures((old) => {
          if (old.length >= most) {
            setProblem(words.spawn.tooMany);
            return old;
          }
          return [...old, { mimeType: file.type, data }];
        });
      }
    }
  };
  return {
    pictures,
    problem,
    over,
    remove: (i: number) => setPictures((old) => old.filter((_, at) => at !== i)),
    clear: () => setPictures([]),
    handlers: {
      onPaste: (e: ClipboardEvent) => {
        if (e.clipboardData.files.length === 0) return;
        e.preventDefault();
        void add(e.clipboardData.files);
      },
      onDragOver: (e: DragEvent) => {
        e.preventDefault();
        setOver(true);
      },
      onDragLeave: () => setOver(false),
      onDrop: (e: DragEvent) => {
        e.preventDefault();
        setOver(false);
        void add(e.dataTransfer.files);
      },
    },
  };
}

/** The bytes of a file, in base64. */
export async function read(file: Blob): Promise<string> {
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error ?? new Error(words.spawn.badImage));
    reader.readAsDataURL(file);
  });
  return url.slice(url.indexOf(",") + 1);
}

export function Pictures({ pictures, remove }: { pictures: readonly Picture[]; remove: (i: number) => void }) {
  if (pictures.length === 0) return null;
  return (
    <ul className="pictures">
      {pictures.map((p, i) => (
        <li key={i}>
          <img src={`data:${p.mimeType};base64,${p.data}`} alt="" />
          <button type="button" className="button square" aria-label={words.spawn.removeImage(i + 1)} onClick={() => remove(i)}>
            <Icon name="close" />
          </button>
        </li>
      ))}
    </ul>
  );
}
