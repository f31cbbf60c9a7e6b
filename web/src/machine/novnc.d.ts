// The parts of noVNC that are used, at the version in package.json. Two are protected members; the tests of
// Screen check that they exist.
declare module "@novnc/novnc" {
  export default class RFB extends EventTarget {
    constructor(target: HTMLElement, channel: object, options?: { shared?: boolean });
    viewOnly: boolean;
    scaleViewport: boolean;
    clipViewport: boolean;
    dragViewport: boolean;
    background: string;
    focus(options?: FocusOptions): void;
    disconnect(): void;
    sendCredentials(given: { username?: string; password?: string }): void;
    sendCtrlAltDel(): void;
    sendKey(keysym: number, code: string | null, down?: boolean): void;
    clipboardPasteFrom(text: string): void;
    protected _resize(width: number, height: number): void;
    protected _updateCursor(rgba: Uint8Array, hotx: number, hoty: number, width: number, height: number): void;
  }
}
