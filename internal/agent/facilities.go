package agent

// Facilities describes what an agent's user can do on the machine.
type Facilities struct {
	System         string `json:"system,omitempty"`         // name of the distribution; "" if unknown
	PackageManager string `json:"packageManager,omitempty"` // apt-get, dnf, …; "" if there is none
	Root           bool   `json:"root,omitempty"`           // the user is root, or becomes root without a password
	Docker         string `json:"docker,omitempty"`         // "absent", "installed", or "refused" if the machine lacks privileges for it
	Desktop        bool   `json:"desktop,omitempty"`        // a desktop is installed
}
