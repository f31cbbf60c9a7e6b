package tool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"aloft/internal/guest/file"
	"aloft/internal/guest/picture"
	"aloft/internal/wire/agentv1"
)

// imageNames are the extensions that a generated image may have.
var imageNames = []string{".png", ".jpg", ".jpeg", ".webp"}

// GenerateImage saves an image that the control plane has requested from a
// model, and shows it. artifacts is the folder of images without a path.
func GenerateImage(ws Workspace, artifacts string) Tool {
	return Tool{Name: "GenerateImage", Run: func(_ context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		editing.Lock()
		defer editing.Unlock()
		success, text, shown, err := saveImage(ws, artifacts, call.GetGenerateImageToolCall().GetArgs())
		result := &agentv1.GenerateImageResult{Result: &agentv1.GenerateImageResult_Success{Success: success}}
		if err != nil {
			text = valid(err.Error())
			result.Result = &agentv1.GenerateImageResult_Error{Error: &agentv1.ToolError{Message: text}}
		}
		done := &agentv1.GenerateImageToolCall{Result: result}
		return Outcome{
			Call:     &agentv1.ToolCall{Tool: &agentv1.ToolCall_GenerateImageToolCall{GenerateImageToolCall: done}},
			Text:     text,
			Error:    err != nil,
			Failure:  failureOf(err),
			Pictures: shown,
		}
	}}
}

func saveImage(ws Workspace, artifacts string, args *agentv1.GenerateImageArgs) (*agentv1.GenerateImageSuccess, string, []*agentv1.Picture, error) {
	if args == nil {
		return nil, "", nil, errNoArguments
	}
	data := args.GetPayload()
	if len(data) == 0 {
		return nil, "", nil, errors.New("the image did not arrive, because the server was interrupted or none is configured: call GenerateImage again if you still need it")
	}
	kind := http.DetectContentType(data)
	if !slices.Contains(imageTypes, kind) {
		return nil, "", nil, fmt.Errorf("the model sent %s and not an image: nothing was saved", kind)
	}
	name := args.GetFilePath()
	if name == "" {
		name = filepath.Join(artifacts, "image-"+args.GetToolCallId()+extension(kind))
	}
	if !slices.Contains(imageNames, strings.ToLower(filepath.Ext(name))) {
		return nil, "", nil, fmt.Errorf("file_path is %q: it must end in %s", name, strings.Join(imageNames, ", "))
	}
	path, err := ws.path(name)
	if err != nil {
		return nil, "", nil, err
	}
	t, err := ws.target(path, args.GetGuarded(), true)
	if err != nil {
		return nil, "", nil, err
	}
	defer func() { t.Close() }()
	info, err := os.Lstat(t.At)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		info = nil
	case err != nil:
		return nil, "", nil, file.Explain(path, err)
	case !info.Mode().IsRegular():
		return nil, "", nil, fmt.Errorf("%s is %s, not a file", path, file.Kind(info.Mode()))
	}
	if err := t.Replace(data, info, 0o666); err != nil {
		return nil, "", nil, err
	}
	ws.Seen.Remember(t.Path, data)
	text := fmt.Sprintf("[saved as %s: %s, %d bytes", t.Path, kind, len(data))
	if own := strings.ToLower(filepath.Ext(name)); strings.Replace(own, ".jpg", ".jpeg", 1) != extension(kind) {
		text += "; the name has the extension of another format"
	}
	success := &agentv1.GenerateImageSuccess{FilePath: valid(t.Path), MediaType: kind, SizeBytes: float64(len(data))}
	fitted, err := picture.Fit(data, kind)
	if err != nil {
		return success, valid(text + "; it cannot be shown: " + err.Error() + "]"), nil, nil
	}
	if fitted.Scaled {
		text += fmt.Sprintf("; shown with its longer side as %d", picture.MaxSide)
	}
	return success, valid(text + "]"), []*agentv1.Picture{{MediaType: fitted.MediaType, Data: fitted.Data}}, nil
}

// extension returns the extension of a media type of imageTypes.
func extension(kind string) string { return "." + strings.TrimPrefix(kind, "image/") }
