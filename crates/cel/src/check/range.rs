//! Ranges of sizes and costs that never overflow.

/// From the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Range {
    pub(super) const ZERO: Range = Range::exactly(0);
    pub(super) const ONE: Range = Range::exactly(1);
    /// Nothing is known.
    pub(super) const ANY: Range = Range {
        min: 0,
        max: u64::MAX,
    };
    /// What a union starts from.
    pub(super) const NONE: Range = Range {
        min: u64::MAX,
        max: 0,
    };

    pub(super) const fn exactly(value: u64) -> Self {
        Range {
            min: value,
            max: value,
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Range {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Range {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// Multiplied by a factor and rounded up.
    pub(super) fn scaled(self, factor: f64) -> Self {
        Range {
            min: scaled(self.min, factor),
            max: scaled(self.max, factor),
        }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Range {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

fn scaled(value: u64, factor: f64) -> u64 {
    // Conversion back saturates.
    (value as f64 * factor).ceil() as u64
}
