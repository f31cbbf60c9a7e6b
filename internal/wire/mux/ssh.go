package mux

// SSH is the name of ssh streams; pod-daemon forwards them to exec-daemon's ssh
// server.
const SSH = "ssh"
