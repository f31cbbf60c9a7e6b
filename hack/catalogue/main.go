// Catalogue converts the messages of proto/agent/v1 that are marked as tools
// to internal/tool/catalogue.json: the description of each tool for models,
// and the JSON schema of its arguments. It reads a descriptor set with source
// information from standard input and writes to standard output:
//
//	buf build -o - | go run ./hack/catalogue > internal/tool/catalogue.json
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"aloft/internal/tool"
	"aloft/internal/wire/agentv1"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "catalogue:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	raw, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read descriptors: %w", err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(raw, &set); err != nil {
		return fmt.Errorf("read descriptors: %w", err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		return fmt.Errorf("link descriptors: %w", err)
	}
	specs, err := catalogue(files)
	if err != nil {
		return err
	}
	for _, s := range specs {
		if s.Description == "" {
			return fmt.Errorf("the tool %s has no description: comment its message, and build the descriptor set with source information", s.Name)
		}
	}
	text, err := encode(specs)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

func encode(specs []tool.Spec) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(specs); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return b.Bytes(), nil
}

// order is the order in which models see the tools, the most needed first. A tool that
// is missing from the list is an error.
var order = []string{
	"Shell", "Await", "WriteShellStdin", "Read", "Write", "StrReplace", "EditNotebook", "Delete", "LS", "Glob", "Grep", "SemSearch", "ReadLints",
	"Fetch", "WebFetch", "WebSearch", "CallMcpTool", "ListMcpResources", "FetchMcpResource", "McpAuth", "GenerateImage", "RecordScreen", "ComputerUse", "TodoWrite", "ReadTodos", "StartGrindPlanning", "StartGrindExecution", "Reflect", "UpdateMemory", "ReloadAgentSkills", "ReportBugfixResults", "ReportFindings", "Task", "ApplyAgentDiff", "AiAttribution", "PrManagement", "AskQuestion", "CreatePlan", "SwitchMode", "SetupVmEnvironment",
}

// files finds descriptors, either in a descriptor set or in the registry of generated
// code.
type files interface {
	RangeFiles(yield func(protoreflect.FileDescriptor) bool)
}

// catalogue returns the specs of all messages that are marked as tools.
func catalogue(all files) ([]tool.Spec, error) {
	found := map[string]tool.Spec{}
	var failed error
	all.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Messages().Len() {
			m := f.Messages().Get(i)
			options, err := toolOptions(m)
			if err != nil || options == nil {
				failed = err
				if err != nil {
					return false
				}
				continue
			}
			spec, err := specOf(m, options)
			if err != nil {
				failed = err
				return false
			}
			found[spec.Name] = spec
		}
		return true
	})
	if failed != nil {
		return nil, failed
	}
	var specs []tool.Spec
	for _, name := range order {
		spec, ok := found[name]
		if !ok {
			return nil, fmt.Errorf("no message is marked as the tool %s", name)
		}
		delete(found, name)
		specs = append(specs, spec)
	}
	for name := range found {
		return nil, fmt.Errorf("the tool %s has no place in the order of hack/catalogue", name)
	}
	return specs, nil
}

// toolOptions returns a message's tool option, or nil if it has none. The descriptors
// were parsed without knowing the option's type, so the option is decoded again.
func toolOptions(m protoreflect.MessageDescriptor) (*agentv1.ToolOptions, error) {
	var options descriptorpb.MessageOptions
	if err := convert(m.Options(), &options); err != nil {
		return nil, fmt.Errorf("%s: %w", m.FullName(), err)
	}
	if !proto.HasExtension(&options, agentv1.E_Tool) {
		return nil, nil
	}
	return proto.GetExtension(&options, agentv1.E_Tool).(*agentv1.ToolOptions), nil
}

func convert(from protoreflect.ProtoMessage, to proto.Message) error {
	raw, err := proto.Marshal(from)
	if err != nil {
		return err
	}
	return proto.Unmarshal(raw, to)
}

func specOf(m protoreflect.MessageDescriptor, o *agentv1.ToolOptions) (tool.Spec, error) {
	spec := tool.Spec{
		Name: o.GetName(), PublicName: o.GetPublicName(), Description: commentOf(m), ReadOnly: o.GetReadOnly(),
		Reviewed: o.GetReviewed(), MainAgentOnly: o.GetMainAgentOnly(),
	}
	switch o.GetHome() {
	case agentv1.ToolHome_TOOL_HOME_GUEST:
		spec.Home, spec.Runner, spec.Reviewed = tool.Guest, tool.Machine, true
	case agentv1.ToolHome_TOOL_HOME_CONTROL:
		spec.Home, spec.Runner = tool.Control, tool.Server
	default:
		return spec, fmt.Errorf("%s: its tool option does not say where the tool runs", m.FullName())
	}
	switch o.GetRunner() {
	case agentv1.ToolRunner_TOOL_RUNNER_PREPARED:
		spec.Runner = tool.Prepared
	case agentv1.ToolRunner_TOOL_RUNNER_MCP:
		spec.Runner = tool.MCP
	case agentv1.ToolRunner_TOOL_RUNNER_SUBAGENT:
		spec.Runner = tool.Subagent
	case agentv1.ToolRunner_TOOL_RUNNER_PERSON:
		spec.Runner = tool.Person
	}
	if spec.Name == "" || spec.PublicName == "" {
		return spec, fmt.Errorf("%s: a tool needs a name and a public name", m.FullName())
	}
	object, err := schemaOf(m, 0)
	if err != nil {
		return spec, err
	}
	spec.Schema, err = json.Marshal(object)
	return spec, err
}
