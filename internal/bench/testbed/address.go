package testbed

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Address says where a child serves. The child writes it to a file.
type Address struct {
	URL string `json:"url"`
	CA  []byte `json:"ca,omitempty"`
}

// WriteJSON makes the file appear at once with all its content.
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
