package analyze

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/tool/auditlog"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/render"
	"github.com/millrace/millrace/internal/tool/useragent"
)

// Options is what a report depends on, apart from the logs.
type Options struct {
	// ServerVersion is the version of kube-apiserver, as in "1.37". It decides which reads the
	// server answers from its cache. "" stands for the version in the log.
	ServerVersion string `json:"serverVersion"`
	// Cores is the number of the server's processors, and MaxCPU the number of processors that
	// starts of a fleet may use.
	Cores  float64 `json:"cores"`
	MaxCPU float64 `json:"maxCPU"`
	// Profile and Prices are files. Without Prices the list in the binary is used.
	Profile string `json:"profile,omitempty"`
	Prices  string `json:"prices,omitempty"`
	// LogWrapper is how logs wrap events.
	LogWrapper auditlog.Wrapper `json:"logForm,omitempty"`
	// Encodings are the encodings that programs ask for, by the name of the program. They override
	// what package useragent assumes.
	Encodings map[string]string `json:"forms,omitempty"`
	// HashNames replaces names by hashes with Salt. "" stands for a random salt.
	HashNames bool   `json:"hashNames,omitempty"`
	Salt      string `json:"salt,omitempty"`
	// FailOn are conditions under which the command ends with exit code 2.
	FailOn []string `json:"failOn,omitempty"`

	// validate sets the fields below.
	minor      int // of ServerVersion: 37 for "1.37"
	conditions []condition
}

// flags has the options, and the flags for the source and the form of a report.
type flags struct {
	Options
	accounts string // file with the accounts of a Millrace server, "" for logs
	from     string // file of a saved report, "" for logs
	output   string // one of formats
	html     string // file of the page, "" for none
	top      int    // rows of each table
}

// add defines the flags in a set.
func (f *flags) add(set *pflag.FlagSet) {
	set.StringVar(&f.ServerVersion, "server-version", "", "Kubernetes version of the server that wrote the log: "+
		"it decides which reads come from etcd (default the version of kube-apiserver's own requests in the log, otherwise "+assumedVersion+")")
	set.Float64Var(&f.Cores, "cores", 8, "processors of the server, for the cost of a start of a whole fleet")
	set.Float64Var(&f.MaxCPU, "max-cpu", 1, "processors that starts of a fleet may use, for the advice on spreading starts")
	set.StringVar(&f.Profile, "profile", "", "the cluster in numbers, as millrace-tools analyze profile printed it")
	set.StringVar(&f.Prices, "prices", "", "price list, as millrace-tools analyze prices printed it (default the list in the binary)")
	auditlog.AddWrapperFlag(set, &f.LogWrapper)
	useragent.AddFormFlag(set, &f.Encodings)
	set.BoolVar(&f.HashNames, "hash-names", false, "replace names of users, programs, namespaces, labels and custom resources by hashes")
	set.StringVar(&f.Salt, "salt", "", "salt of the hashes of --hash-names, to get the same hashes again (default a random salt)")
	set.StringArrayVar(&f.FailOn, "fail-on", nil,
		"end with exit code 2 if a condition holds, as in 'list-cpu>0.5'; "+conditionHelp()+"; may be repeated")
	set.StringVarP(&f.output, "output", "o", render.Terminal, "one of "+strings.Join(formats(), ", "))
	set.StringVar(&f.html, "report", "", "also write a page of HTML to this file, which needs no network")
	set.StringVar(&f.from, "from", "", "print the report in this file, as -o json wrote it, and read no log")
	set.StringVar(&f.accounts, "accounts", "", "instead of logs, read accounts that millrace-tools top lists -o json "+
		"printed to this file; - is the standard input")
	set.IntVar(&f.top, "top", 15, "rows of each table")
}

func formats() []string { return []string{render.Terminal, render.JSON, render.Markdown} }

// validate returns an error that says which flag to change. It also sets minor and conditions.
func (f *flags) validate() error {
	if !slices.Contains(formats(), f.output) {
		return fmt.Errorf("-o %s: choose one of %s", f.output, strings.Join(formats(), ", "))
	}
	if f.accounts != "" && f.HashNames {
		return errors.New("--hash-names is for audit logs, and not for --accounts")
	}
	if f.from != "" && f.HashNames {
		return errors.New("--hash-names is for audit logs, and not for --from: give the logs again")
	}
	if f.from != "" && f.accounts != "" {
		return errors.New("--from and --accounts: choose one of them")
	}
	if f.top < 1 {
		return errors.New("--top: choose 1 or more")
	}
	if err := display.CheckFile(f.html); err != nil {
		return err
	}
	return f.Options.validate()
}

// validate returns an error that says which option to change. It also sets minor and conditions.
func (o *Options) validate() error {
	if o.ServerVersion != "" {
		if o.minor = parseMinor(o.ServerVersion); o.minor == 0 {
			return fmt.Errorf("--server-version=%s: choose a version as in %s", o.ServerVersion, assumedVersion)
		}
	}
	if err := auditlog.CheckWrapper(o.LogWrapper); err != nil {
		return err
	}
	if !(o.Cores > 0) || !(o.MaxCPU > 0) {
		return errors.New("--cores and --max-cpu: choose numbers above 0")
	}
	if err := useragent.CheckForms(o.Encodings); err != nil {
		return err
	}
	if o.Salt != "" && !o.HashNames {
		return errors.New("--salt needs --hash-names")
	}
	o.conditions = nil
	for _, text := range o.FailOn {
		c, err := parseCondition(text)
		if err != nil {
			return err
		}
		o.conditions = append(o.conditions, c)
	}
	return nil
}
