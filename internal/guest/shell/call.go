package shell

import "os"

// call is one running command: its mark, and the destination of its output.
type call struct {
	mark   string
	before before
	stdout *stream
	stderr *stream
	output *output
	deltas *deltas
}

// begin creates the pipes of a call and starts to read them.
func (s *Session) begin(threshold int, emit Emit) (*call, error) {
	c := &call{mark: newMark(), before: s.before()}
	c.output = newOutput(s.cfg.OutputDir, c.mark, threshold, s.cfg.MaxOutput)
	c.deltas = newDeltas(emit)
	var err error
	if c.stdout, err = openStream(s.file(c.mark + outSuffix)); err != nil {
		return nil, err
	}
	if c.stderr, err = openStream(s.file(c.mark + errSuffix)); err != nil {
		c.stdout.close()
		return nil, err
	}
	go c.stdout.copy(func(p []byte) { c.take(0, p) })
	go c.stderr.copy(func(p []byte) { c.take(1, p) })
	return c, nil
}

// take stores a piece of standard output (0) or standard error (1).
func (c *call) take(which int, p []byte) {
	c.output.write(which, p)
	c.deltas.write(which, p)
}

// finish collects everything the command wrote until it ended. If a background
// process holds a pipe open, its output is still copied to the output file.
func (c *call) finish(s *Session, res *Result) {
	for _, st := range []*stream{c.stdout, c.stderr} {
		_ = os.Remove(st.path) // processes that have the pipe open keep it
		which := 0
		if st == c.stderr {
			which = 1
		}
		held := st.drain(func(p []byte) { c.take(which, p) })
		if !held {
			st.close()
			continue
		}
		res.Held = true
		c.output.keepOpen()
		s.left.Go(func() {
			defer c.output.release()
			defer st.close()
			stop := st.resume(s.ctx)
			defer stop()
			st.read(func(p []byte) { c.output.write(which, p) })
		})
	}
	c.deltas.close()
	c.output.result(res)
	c.output.release()
}

// abandon closes the pipes of a call that did not run.
func (c *call) abandon() {
	for _, st := range []*stream{c.stdout, c.stderr} {
		_ = os.Remove(st.path)
		st.drain(func([]byte) {})
		st.close()
	}
	c.deltas.close()
	c.output.release()
}
