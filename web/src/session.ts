/**
 * Who is signed in. It is an API key, pasted once and kept in this tab alone;
 * whatever signs people in later replaces this module and nothing else.
 */
const place = "aloft.key";
const listeners = new Set<() => void>();

export const session = {
  key: (): string => sessionStorage.getItem(place) ?? "",
  signIn(key: string): void {
    sessionStorage.setItem(place, key);
    listeners.forEach((tell) => tell());
  },
  signOut(): void {
    sessionStorage.removeItem(place);
    listeners.forEach((tell) => tell());
  },
  subscribe(tell: () => void): () => void {
    listeners.add(tell);
    return () => listeners.delete(tell);
  },
  /** What a request bears. */
  headers(): Record<string, string> {
    return { Authorization: `Bearer ${session.key()}` };
  },
  /** What a WebSocket asks for; a page cannot give it headers. */
  protocols(name: string): string[] {
    const bytes = new TextEncoder().encode(session.key());
    const text = btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
    return [name, `aloft.key.${text}`];
  },
};
