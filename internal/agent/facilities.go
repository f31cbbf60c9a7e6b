package agent

// Facilities describes what an agent's user can do on the machine.
type Facilities struct {
	System         string `json:"system,omitempty"`         // name of the distribution; "" if unknown
	PackageManager string `json:"packageManager,omitempty"` // apt-get, dnf, …; "" if there is none
	Root           bool   `json:"root,omitempty"`           // the user is root, or becomes root without a password
	Docker         string `json:"docker,omitempty"`         // "installed", "installable", "refused" if the machine lacks the required privileges, or "absent" if nothing else is known
	Desktop        bool   `json:"desktop,omitempty"`        // a desktop is installed
	// DockerHostNetwork says that containers can use the machine's network or none, but not
	// bridges and published ports.
	DockerHostNetwork bool `json:"dockerHostNetwork,omitempty"`
}
