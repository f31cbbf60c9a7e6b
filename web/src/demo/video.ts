let made: Promise<string> | undefined;

/** The address of a short recording that the page generates. */
export function recording(): Promise<string> {
  made ??= record();
  return made;
}

async function record(): Promise<string> {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [480, 300];
  const c = canvas.getContext("2d");
  const recorder = new MediaRecorder(canvas.captureStream(0), { mimeType: "video/webm" });
  const pieces: Blob[] = [];
  recorder.ondataavailable = (e) => pieces.push(e.data);
  const over = new Promise((done) => (recorder.onstop = done));
  recorder.start();
  const track = recorder.stream.getVideoTracks()[0] as CanvasCaptureMediaStreamTrack | undefined;
  for (let i = 0; c && i < 12; i++) {
    c.fillStyle = "#2060a0";
    c.fillRect(0, 0, 480, 300);
    c.fillStyle = "#ffffff";
    c.fillRect(40, 60, 400, 200);
    c.fillStyle = "#1b1f27";
    c.font = "600 22px sans-serif";
    c.fillText("Orders".slice(0, i), 64, 104);
    c.fillRect(64, 130, 28 * i, 12);
    track?.requestFrame();
    await new Promise((r) => setTimeout(r, 60));
  }
  recorder.stop();
  await over;
  return URL.createObjectURL(new Blob(pieces, { type: "video/webm" }));
}
