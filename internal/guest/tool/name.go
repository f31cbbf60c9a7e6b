package tool

import "aloft/internal/wire/agentv1"

// NameOf returns the name of the tool that a call is for, as in the
// catalogue; empty for a call that no tool here runs.
func NameOf(call *agentv1.ToolCall) string {
	switch t := call.GetTool().(type) {
	case *agentv1.ToolCall_ShellToolCall:
		return "Shell"
	case *agentv1.ToolCall_ReadToolCall:
		return "Read"
	case *agentv1.ToolCall_DeleteToolCall:
		return "Delete"
	case *agentv1.ToolCall_GlobToolCall:
		return "Glob"
	case *agentv1.ToolCall_GrepToolCall:
		return "Grep"
	case *agentv1.ToolCall_SemSearchToolCall:
		return "SemSearch"
	case *agentv1.ToolCall_ReadLintsToolCall:
		return "ReadLints"
	case *agentv1.ToolCall_EditToolCall:
		switch t.EditToolCall.GetArgs().(type) {
		case *agentv1.EditToolCall_Write:
			return "Write"
		case *agentv1.EditToolCall_StrReplace:
			return "StrReplace"
		}
	}
	return ""
}
