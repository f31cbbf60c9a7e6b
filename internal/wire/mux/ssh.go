package mux

// SSH is the name of streams of the ssh protocol; pod-daemon joins them to
// exec-daemon's server.
const SSH = "ssh"
