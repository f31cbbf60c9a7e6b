package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/tool"
)

const setUp = "SetupVmEnvironment"

// Scripts stores the install scripts that agents propose for later machines of
// their repository. Its methods are safe for concurrent use.
type Scripts interface {
	// KeepScript stores the script. It is idempotent. If the script may not be
	// stored, the error is a fault that says why.
	KeepScript(ctx context.Context, a agent.Agent, callID, script string) (environment.Saved, error)
}

// setUpVMEnvironment stores the update script.
func setUpVMEnvironment(ctx context.Context, c conversation.ToolCall, a agent.Agent, scripts Scripts) (tool.Result, agent.Body) {
	var in struct {
		Script string `json:"update_script"`
	}
	d := json.NewDecoder(bytes.NewReader(c.Args))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return refused(fault.Invalid("the arguments do not match the schema: %v", err)), nil
	}
	switch script := strings.TrimSpace(in.Script); {
	case script == "":
		return refused(fault.Invalid("update_script is empty: give the commands, one per line")), nil
	case len(script) > environment.MaxScript:
		return refused(fault.Invalid("update_script has %d bytes, more than %d: put it in a file in the repository and call that file", len(script), environment.MaxScript)), nil
	case scripts == nil:
		return refused(fault.NotImplemented("saved environments are not enabled on this server")), nil
	}
	e, err := scripts.KeepScript(ctx, a, c.ID, strings.TrimSpace(in.Script))
	if err != nil {
		return refused(err), nil
	}
	output, err := json.Marshal(map[string]any{"success": map[string]string{"environment_id": e.ID, "version_id": e.VersionID}})
	if err != nil {
		return refused(err), nil
	}
	text := fmt.Sprintf("Stored in the environment %s. New machines of this repository will run it.", e.ID)
	return tool.Result{Text: text, Output: output}, &agent.ScriptKept{EnvironmentID: e.ID, VersionID: e.VersionID, Script: strings.TrimSpace(in.Script)}
}

// refused returns the result for a script that is not stored, with the reason
// as text for the model and as a code for programs.
func refused(err error) tool.Result {
	f := fault.Of(err)
	message := "Not stored: " + f.Message
	if f.Advice != "" {
		message += ". To fix this: " + f.Advice
	}
	r := tool.Failed("%s", message)
	if output, err := json.Marshal(map[string]any{"error": map[string]string{"message": message, "code": f.Code}}); err == nil {
		r.Output = output
	}
	return r
}
