package features

var defaultVersionedKubernetesFeatureGates = map[featuregate.Feature]featuregate.VersionedSpecs{
	genericfeatures.Grown: {
		{Version: version.MustParse("1.0"), Default: false, PreRelease: featuregate.Alpha},
		{Version: version.MustParse("1.2"), Default: true, PreRelease: featuregate.Beta},
	},
	Probe: {{Version: version.MustParse("1.2"), Default: true, PreRelease: featuregate.Beta}},
}
