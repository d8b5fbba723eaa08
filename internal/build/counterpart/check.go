package counterpart

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Check compares the marks with the table and with the source in modules. It returns a message
// for each difference, which says what changed and what to do.
func Check(marks []Mark, modules *Modules, table *Table) ([]string, error) {
	c := checker{modules: modules, table: table}
	rows := map[string]Row{}
	for _, row := range table.Rows {
		rows[row.Name] = row
	}
	for _, group := range byName(marks) {
		declaration, err := modules.Find(group[0].Name)
		if errors.Is(err, ErrNotFound) {
			for _, mark := range group {
				c.report("%s: the counterpart of %s is gone: %v. %s to find what took its place, and name that in the mark.", mark.Position(), mark.Ours, err, c.diffCommand())
			}
			delete(rows, group[0].Name)
			continue
		}
		if err != nil {
			return nil, err
		}
		row, known := rows[group[0].Name]
		delete(rows, group[0].Name)
		c.compare(row, known, group, declaration)
	}
	for _, row := range table.Rows {
		if _, unmarked := rows[row.Name]; unmarked {
			c.report("%s lists %s, which no mark names. %s", TableFile, row.Name, runAccept)
		}
	}
	c.compareVersions()
	return c.messages, nil
}

const runAccept = `Run "make upstream-accept".`

// checker collects the messages of Check.
type checker struct {
	modules  *Modules
	table    *Table
	messages []string
}

func (c *checker) report(format string, args ...any) {
	c.messages = append(c.messages, fmt.Sprintf(format, args...))
}

// compare compares the marks for a counterpart with its row, and the row with the source. known
// is false if the table has no row.
func (c *checker) compare(row Row, known bool, marks []Mark, declaration *Declaration) {
	ours := oursOf(marks)
	if !known {
		c.report("%s lacks %s, which %s names at %s. %s", TableFile, declaration.Name, marks[0].Ours, marks[0].Position(), runAccept)
		return
	}
	if digest := declaration.Digest(); digest != row.Digest {
		c.report("%s has changed between %s %s and %s. Beside it: %s. %s, make ours follow, then run \"make upstream-accept\".",
			declaration.Name, row.Module, c.table.Versions[row.Module], declaration.Module.Version, strings.Join(ours, oursSeparator), c.diffCommand())
	}
	if !slices.Equal(ours, row.Ours) {
		c.report("%s lists %s beside %s, but the marks are at %s. %s", TableFile, strings.Join(row.Ours, oursSeparator), declaration.Name, strings.Join(ours, oursSeparator), runAccept)
	}
	if declaration.Module.Path != row.Module {
		c.report("%s says that %s is in %s, but it is in %s. %s", TableFile, declaration.Name, row.Module, declaration.Module.Path, runAccept)
	}
}

// diffCommand returns the advice to print the differences since the last comparison.
func (c *checker) diffCommand() string {
	return fmt.Sprintf(`Run "make upstream-diff FROM=%s TO=%s"`, c.table.Versions[kubernetes], c.modules.Version(kubernetes))
}

// compareVersions reports a table that was written for another version of Kubernetes: FROM
// would be wrong at the next upgrade.
func (c *checker) compareVersions() {
	if accepted, required := c.table.Versions[kubernetes], c.modules.Version(kubernetes); accepted != required {
		c.report("%s was accepted at %s %s, but go.mod requires %s. %s, make ours follow, then run \"make upstream-accept\".", TableFile, kubernetes, accepted, required, c.diffCommand())
	}
}

// CheckTree returns the messages of Check and CheckGates for the tree below root.
func CheckTree(root string) ([]string, error) {
	marks, err := ReadMarks(root)
	if err != nil {
		return nil, err
	}
	modules, err := RequiredModules(root)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(root, TableFile))
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	table, err := ParseTable(data)
	if err != nil {
		return nil, err
	}
	messages, err := Check(marks, modules, table)
	if err != nil {
		return nil, err
	}
	aboutGates, err := checkGatesBelow(root, modules)
	return append(messages, aboutGates...), err
}

func checkGatesBelow(root string, modules *Modules) ([]string, error) {
	document, err := os.ReadFile(filepath.Join(root, GatesFile))
	if err != nil {
		return nil, fmt.Errorf("read document: %w", err)
	}
	ours, err := ourGates(root)
	if err != nil {
		return nil, err
	}
	return CheckGates(document, modules, ours)
}

// Accept writes the table from the marks below root and the source of the modules that its
// go.mod selects. It returns the number of rows.
func Accept(root string) (int, error) {
	marks, err := ReadMarks(root)
	if err != nil {
		return 0, err
	}
	modules, err := RequiredModules(root)
	if err != nil {
		return 0, err
	}
	table, err := NewTable(marks, modules)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(root, TableFile), table.Format(), 0o644); err != nil {
		return 0, fmt.Errorf("write table: %w", err)
	}
	return len(table.Rows), nil
}
