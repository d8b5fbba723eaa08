package testbed

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Address is where a child process listens. The child writes it to a file as JSON, and
// Child.Await reads that file.
type Address struct {
	URL string `json:"url"`
	CA  []byte `json:"ca,omitempty"` // PEM; empty without TLS
}

// WriteJSON writes v to the file path atomically: a reader sees the old content or all of the
// new one. It needs the right to create path+".new" beside it.
func WriteJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}
