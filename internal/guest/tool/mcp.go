package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"aloft/internal/guest/file"
	guest "aloft/internal/guest/mcp"
	"aloft/internal/guest/picture"
	"aloft/internal/mcp"
	"aloft/internal/wire/agentv1"
)

// maxMCPText is the largest text, in bytes, that is taken from a result. A text that is
// too long for the model is saved to a file.
const maxMCPText = 8 << 20

// CallMcpTool calls a tool of an MCP server that runs in this machine.
func CallMcpTool(servers *guest.Manager) Tool {
	return Tool{Name: "CallMcpTool", Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		success, out, err := callMcpTool(ctx, servers, call.GetMcpToolCall().GetArgs())
		result := &agentv1.McpResult{Result: &agentv1.McpResult_Success{Success: success}}
		if err != nil {
			out = Outcome{Text: valid(err.Error()), Error: true, Failure: failureOf(err)}
			result.Result = &agentv1.McpResult_Error{Error: &agentv1.ToolError{Message: out.Text}}
		}
		done := &agentv1.McpToolCall{Result: result}
		out.Call = &agentv1.ToolCall{Tool: &agentv1.ToolCall_McpToolCall{McpToolCall: done}}
		return out
	}}
}

func callMcpTool(ctx context.Context, servers *guest.Manager, args *agentv1.McpArgs) (*agentv1.McpSuccess, Outcome, error) {
	if args == nil {
		return nil, Outcome{}, errNoArguments
	}
	if args.GetToolName() == "" {
		l, err := servers.Describe(ctx, args.GetServer())
		if err != nil {
			return nil, Outcome{}, err
		}
		text := l.Describe()
		return &agentv1.McpSuccess{Content: []*agentv1.McpContent{{Content: &agentv1.McpContent_Text{Text: text}}}}, Outcome{Text: text}, nil
	}
	given := json.RawMessage("{}")
	if args.GetArguments() != nil {
		text, err := protojson.Marshal(args.GetArguments())
		if err != nil {
			return nil, Outcome{}, fmt.Errorf("the arguments cannot be sent: %w", err)
		}
		given = text
	}
	r, err := servers.Call(ctx, args.GetServer(), args.GetToolName(), given)
	if err != nil {
		return nil, Outcome{}, err
	}
	truncated := r.Truncate(maxMCPText)
	out := Outcome{Text: valid(truncated.Text), Error: truncated.Error}
	for _, image := range truncated.Images {
		fitted, err := picture.Fit(image.Data, image.MediaType)
		if err != nil {
			out.Text += fmt.Sprintf("\n[an image cannot be shown: %v]", err)
			continue
		}
		out.Pictures = append(out.Pictures, &agentv1.Picture{MediaType: fitted.MediaType, Data: fitted.Data})
	}
	success := &agentv1.McpSuccess{IsError: r.IsError, StructuredContent: valid(string(r.Structured))}
	for _, c := range r.Content {
		success.Content = append(success.Content, mcpContent(c))
	}
	return success, out, nil
}

func mcpContent(c mcp.Content) *agentv1.McpContent {
	switch {
	case c.Link != nil:
		return &agentv1.McpContent{Content: &agentv1.McpContent_Resource{Resource: mcpResource(*c.Link)}}
	case c.Data != nil:
		return &agentv1.McpContent{Content: &agentv1.McpContent_Blob{Blob: &agentv1.McpBlob{MediaType: valid(c.MediaType), SizeBytes: float64(len(c.Data))}}}
	}
	return &agentv1.McpContent{Content: &agentv1.McpContent_Text{Text: valid(c.Text)}}
}

func mcpResource(r mcp.Resource) *agentv1.McpResource {
	return &agentv1.McpResource{
		Server: r.Server, Uri: valid(r.URI), Name: valid(r.Name), Title: valid(r.Title), Description: valid(r.Description), MediaType: valid(r.MediaType), SizeBytes: r.SizeBytes,
	}
}

// ListMcpResources lists the resources of the MCP servers in this machine.
func ListMcpResources(servers *guest.Manager) Tool {
	return Tool{Name: "ListMcpResources", Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		args := call.GetListMcpResourcesToolCall().GetArgs()
		resources, err := []mcp.Resource(nil), errNoArguments
		if args != nil {
			resources, err = servers.Resources(ctx, args.GetServer())
		}
		success := &agentv1.ListMcpResourcesSuccess{}
		for _, r := range resources {
			success.Resources = append(success.Resources, mcpResource(r))
		}
		result := &agentv1.ListMcpResourcesResult{Result: &agentv1.ListMcpResourcesResult_Success{Success: success}}
		text := mcp.TellResources(resources)
		if err != nil {
			text = valid(err.Error() + "\n" + text)
			result.Result = &agentv1.ListMcpResourcesResult_Error{Error: &agentv1.ToolError{Message: text}}
		}
		done := &agentv1.ListMcpResourcesToolCall{Result: result}
		return Outcome{Call: &agentv1.ToolCall{Tool: &agentv1.ToolCall_ListMcpResourcesToolCall{ListMcpResourcesToolCall: done}}, Text: valid(text), Error: err != nil}
	}}
}

// FetchMcpResource reads a resource from an MCP server in this machine, or
// saves it to a new file in the workspace.
func FetchMcpResource(ws Workspace, servers *guest.Manager) Tool {
	return Tool{Name: "FetchMcpResource", Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		success, out, err := fetchMcpResource(ctx, ws, servers, call.GetReadMcpResourceToolCall().GetArgs())
		result := &agentv1.ReadMcpResourceResult{Result: &agentv1.ReadMcpResourceResult_Success{Success: success}}
		if err != nil {
			out = Outcome{Text: valid(err.Error()), Error: true, Failure: failureOf(err)}
			result.Result = &agentv1.ReadMcpResourceResult_Error{Error: &agentv1.ToolError{Message: out.Text}}
		}
		done := &agentv1.ReadMcpResourceToolCall{Result: result}
		out.Call = &agentv1.ToolCall{Tool: &agentv1.ToolCall_ReadMcpResourceToolCall{ReadMcpResourceToolCall: done}}
		return out
	}}
}

func fetchMcpResource(ctx context.Context, ws Workspace, servers *guest.Manager, args *agentv1.ReadMcpResourceArgs) (*agentv1.ReadMcpResourceSuccess, Outcome, error) {
	if args == nil {
		return nil, Outcome{}, errNoArguments
	}
	var to file.Target
	if args.GetDownloadPath() != "" {
		var err error
		if to, err = ws.files().New(args.GetDownloadPath(), args.GetGuarded()); err != nil {
			return nil, Outcome{}, err
		}
		defer func() { to.Close() }()
	}
	contents, err := servers.Read(ctx, args.GetServer(), args.GetUri())
	if err != nil {
		return nil, Outcome{}, err
	}
	success := &agentv1.ReadMcpResourceSuccess{Uri: valid(args.GetUri())}
	var text strings.Builder
	var whole []byte
	for _, c := range contents {
		data := c.Data
		if data == nil {
			data = []byte(c.Text)
			text.WriteString(c.Text)
		}
		whole = append(whole, data...)
		success.MediaType = valid(c.MediaType)
	}
	success.SizeBytes = float64(len(whole))
	if args.GetDownloadPath() == "" {
		success.Text = valid(text.String())
		truncated := mcp.Result{Content: contents}.Truncate(maxMCPText)
		out := Outcome{Text: valid(truncated.Text)}
		for _, image := range truncated.Images {
			if fitted, err := picture.Fit(image.Data, image.MediaType); err == nil {
				out.Pictures = append(out.Pictures, &agentv1.Picture{MediaType: fitted.MediaType, Data: fitted.Data})
			}
		}
		return success, out, nil
	}
	if err := to.Create(whole); err != nil {
		return nil, Outcome{}, err
	}
	success.SavedTo = to.Path
	return success, Outcome{Text: fmt.Sprintf("%d bytes are in %s", len(whole), to.Path)}, nil
}

// McpAuth returns an error: an MCP server in this machine has no sign-in. The
// control plane answers the call itself for the servers that it connects to.
func McpAuth(servers *guest.Manager) Tool {
	return Tool{Name: "McpAuth", Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		err := errNoArguments
		if args := call.GetMcpAuthToolCall().GetArgs(); args != nil {
			if _, err = servers.Describe(ctx, args.GetServer()); err == nil {
				err = fmt.Errorf("the MCP server %s is a program in this machine: it has no sign-in; its credentials are in its environment variables (env in mcp.json)", args.GetServer())
			}
		}
		text := valid(err.Error())
		done := &agentv1.McpAuthToolCall{Result: &agentv1.McpAuthResult{Result: &agentv1.McpAuthResult_Error{Error: &agentv1.ToolError{Message: text}}}}
		return Outcome{Call: &agentv1.ToolCall{Tool: &agentv1.ToolCall_McpAuthToolCall{McpAuthToolCall: done}}, Text: text, Error: true}
	}}
}
