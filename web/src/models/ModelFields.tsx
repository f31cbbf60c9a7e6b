import { useId, type ReactNode } from "react";
import type { Model } from "../api/types";
import { words } from "../words";
import { modelOf, standardValue, type Choice } from "./choice";

const w = words.models;

type Props = { models: readonly Model[]; choice: Choice; set: (next: Choice) => void; standard?: string; label?: (m: Model) => string };

/** The fields for a model and its parameters; standard is the label for no choice. */
export function ModelFields({ models, choice, set, standard, label = (m) => m.displayName }: Props) {
  const model = modelOf(models, choice);
  return (
    <>
      <Box name={w.model} value={choice.id} set={(id) => set({ id, params: {} })}>
        {standard !== undefined && <option value="">{standard}</option>}
        {choice.id && !model && <option value={choice.id}>{choice.id}</option>}
        {models.map((m) => (
          <option key={m.id} value={m.id}>
            {label(m)}
          </option>
        ))}
      </Box>
      {model?.parameters?.map((p) => {
        const usual = standardValue(model, p.id);
        const named = p.values.find((v) => v.value === usual);
        return (
          <Box key={p.id} name={p.displayName ?? p.id} value={choice.params[p.id] ?? ""} set={(value) => set({ ...choice, params: { ...choice.params, [p.id]: value } })}>
            <option value="">{w.usual(named ? (named.displayName ?? named.value) : "")}</option>
            {p.values
              .filter((v) => v.value !== usual)
              .map((v) => (
                <option key={v.value} value={v.value}>
                  {v.displayName ?? v.value}
                </option>
              ))}
          </Box>
        );
      })}
    </>
  );
}

function Box({ name, value, set, children }: { name: string; value: string; set: (value: string) => void; children: ReactNode }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{name}</label>
      <select id={id} className="input" value={value} onChange={(e) => set(e.target.value)}>
        {children}
      </select>
    </div>
  );
}
