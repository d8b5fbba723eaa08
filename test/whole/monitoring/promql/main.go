// Command promql parses expressions and rule files with Prometheus' own parser. It reads
// the expressions, a JSON list of strings, from its standard input; the arguments are rule
// files. It prints the metrics that the expressions name, one a line, or an error.
// TestPrometheus of package monitoring runs it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	if err := check(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check() error {
	var wrong []error
	p := parser.NewParser(parser.Options{})
	for _, file := range os.Args[1:] {
		_, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, p, slog.Default())
		wrong = append(wrong, errs...)
	}
	var expressions []string
	if err := json.NewDecoder(os.Stdin).Decode(&expressions); err != nil {
		return fmt.Errorf("read expressions: %w", err)
	}
	for _, expression := range expressions {
		parsed, err := p.ParseExpr(expression)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("parse %s: %w", expression, err))
			continue
		}
		parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
			if v, ok := node.(*parser.VectorSelector); ok {
				fmt.Println(v.Name)
			}
			return nil
		})
	}
	return errors.Join(wrong...)
}
