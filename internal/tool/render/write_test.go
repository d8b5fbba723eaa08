package render

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadReportRefusesOtherFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table.txt")
	if err := os.WriteFile(file, []byte("workload  clients"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ReadReport(file, &struct{}{}); err == nil || !strings.Contains(err.Error(), "-o json") {
		t.Fatalf("readReport = %v, want an error that names -o json", err)
	}
}
