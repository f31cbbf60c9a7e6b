// Has the buttons of the dashboard's notifications pressed. It fetches nothing and keeps nothing: the
// page, which is open, does what was asked.
addEventListener("install", () => self.skipWaiting());
addEventListener("activate", (e) => e.waitUntil(self.clients.claim()));
addEventListener("notificationclick", (e) => {
  e.notification.close();
  const { path, question } = e.notification.data;
  const answer = async () => {
    const [page] = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
    if (!page) return self.clients.openWindow(path);
    page.postMessage({ path, question, decision: e.action });
    if (!e.action) await page.focus();
  };
  e.waitUntil(answer());
});
