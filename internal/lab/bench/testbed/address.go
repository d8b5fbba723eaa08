package testbed

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Address says where a child process listens. The child writes it to a file as
// JSON, which Child.Await reads.
type Address struct {
	URL string `json:"url"`
	CA  []byte `json:"ca,omitempty"` // PEM; empty without TLS
}

// WriteJSON writes v to a file atomically: a reader never sees a part of it.
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
