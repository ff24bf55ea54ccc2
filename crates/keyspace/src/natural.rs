//! Whole numbers of any size: the few operations that exact decimal fractions need.

use std::cmp::Ordering;
use std::fmt::Write as _;

/// Digits that are read and written at a time: the most that fit in 32 bits.
const DECIMAL_DIGITS: u32 = 9;
const DECIMAL_BASE: u32 = 10_u32.pow(DECIMAL_DIGITS);

/// A whole number, its lowest 32 bits first, without zeros at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Natural {
    limbs: Vec<u32>,
}

impl From<u64> for Natural {
    fn from(number: u64) -> Self {
        let mut natural = Self { limbs: vec![low(number), low(number >> 32)] };
        natural.trim();
        natural
    }
}

fn low(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).expect("32 bits")
}

impl Natural {
    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.limbs.is_empty()
    }

    /// How many bits it takes.
    pub(crate) fn bits(&self) -> usize {
        let last = self.limbs.last().map_or(0, |last| 32 - last.leading_zeros());
        self.limbs.len().saturating_sub(1) * 32 + last as usize
    }

    /// `self * factor + addend`.
    pub(crate) fn multiply_add(&mut self, factor: u32, addend: u32) {
        let mut carry = u64::from(addend);
        for limb in &mut self.limbs {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = low(carry);
            carry >>= 32;
        }
        if carry > 0 {
            self.limbs.push(low(carry));
        }
    }

    /// Divides, and gives the rest.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0_u64;
        for limb in self.limbs.iter_mut().rev() {
            let dividend = rest << 32 | u64::from(*limb);
            *limb = low(dividend / u64::from(divisor));
            rest = dividend % u64::from(divisor);
        }
        self.trim();
        low(rest)
    }

    pub(crate) fn multiply_by_ten_to(&mut self, power: u32) {
        for _ in 0..power / DECIMAL_DIGITS {
            self.multiply_add(DECIMAL_BASE, 0);
        }
        self.multiply_add(10_u32.pow(power % DECIMAL_DIGITS), 0);
    }

    /// Divides, rounded down, and says whether anything was left.
    pub(crate) fn divide_by_ten_to(&mut self, power: u32) -> bool {
        let mut is_inexact = false;
        for _ in 0..power / DECIMAL_DIGITS {
            is_inexact |= self.divide(DECIMAL_BASE) != 0;
        }
        is_inexact | (self.divide(10_u32.pow(power % DECIMAL_DIGITS)) != 0)
    }

    pub(crate) fn shift_left(&mut self, bits: usize) {
        if self.is_zero() {
            return;
        }
        self.multiply_add(1 << (bits % 32), 0);
        let zeros = std::iter::repeat_n(0, bits / 32);
        self.limbs.splice(0..0, zeros);
    }

    /// Divides by a power of two, and says whether anything was left.
    pub(crate) fn shift_right(&mut self, bits: usize) -> bool {
        let n_limbs = (bits / 32).min(self.limbs.len());
        let is_inexact = self.limbs.drain(..n_limbs).any(|limb| limb != 0);
        is_inexact | (self.divide(1 << (bits % 32)) != 0)
    }

    pub(crate) fn is_odd(&self) -> bool {
        self.limbs.first().is_some_and(|limb| limb % 2 == 1)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let length = self.limbs.len().max(other.limbs.len()) + 1;
        self.limbs.resize(length, 0);
        let mut carry = 0_u64;
        for (at, limb) in self.limbs.iter_mut().enumerate() {
            carry += u64::from(*limb) + u64::from(other.limbs.get(at).copied().unwrap_or(0));
            *limb = low(carry);
            carry >>= 32;
        }
        self.trim();
    }

    /// Takes away a number that is not larger.
    pub(crate) fn subtract(&mut self, other: &Self) {
        let mut borrow = 0_i64;
        for (at, limb) in self.limbs.iter_mut().enumerate() {
            let taken = i64::from(other.limbs.get(at).copied().unwrap_or(0)) + borrow;
            let left = i64::from(*limb) - taken;
            borrow = i64::from(left < 0);
            *limb = low(left.cast_unsigned());
        }
        self.trim();
    }

    /// What it is, if it fits.
    pub(crate) fn to_u64(&self) -> Option<u64> {
        let limb = |at: usize| u64::from(self.limbs.get(at).copied().unwrap_or(0));
        (self.limbs.len() <= 2).then(|| limb(1) << 32 | limb(0))
    }

    pub(crate) fn to_decimal(&self) -> String {
        let mut rest = self.clone();
        let mut groups = Vec::new();
        while !rest.is_zero() {
            groups.push(rest.divide(DECIMAL_BASE));
        }
        let mut text = groups.pop().unwrap_or(0).to_string();
        for group in groups.iter().rev() {
            write!(text, "{group:09}").expect("a string takes all");
        }
        text
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_length = self.limbs.len().cmp(&other.limbs.len());
        by_length.then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev()))
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
