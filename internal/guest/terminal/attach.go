package terminal

import (
	"cmp"
	"context"

	"aloft/internal/fault"
	"aloft/internal/terminal"
)

// Attachment says how to attach to a terminal.
type Attachment struct {
	Name          string // "main" by default
	Columns, Rows uint16
	ReadOnly      bool
	Create        bool // create the terminal if it does not exist
}

// Terminals returns the machine's tmux server.
func (h *Host) Terminals() (*Tmux, error) {
	if h.cfg.Terminals == nil {
		return nil, fault.NotImplemented("this machine has no terminals").Named("tmux_missing")
	}
	return h.cfg.Terminals, nil
}

// Attach starts a PTY that shows a terminal. The terminal outlives the PTY.
func (h *Host) Attach(ctx context.Context, a Attachment) (*PTY, error) {
	t, err := h.Terminals()
	if err != nil {
		return nil, err
	}
	a.Name = cmp.Or(a.Name, "main")
	if a.Create {
		_, _, err = t.Create(ctx, terminal.New{Name: a.Name, Columns: int(a.Columns), Rows: int(a.Rows)})
	} else {
		_, err = t.Find(ctx, a.Name)
	}
	if err != nil {
		return nil, err
	}
	args := []string{"attach-session", "-t", "=" + a.Name}
	if a.ReadOnly {
		args = append(args, "-r")
	}
	return h.Spawn(Spec{Args: t.command(args...), Columns: a.Columns, Rows: a.Rows})
}
